// Verifying and timing configurations of one problem on one device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/records.h"
#include "kernels/device.h"
#include "tuner/evaluation/guarded_buffer.h"

namespace knobwise {

/// One configuration to measure.
struct Candidate {
  const KernelFamily* family = nullptr;
  Configuration configuration;
  CompiledCode code;  ///< Empty for built-in families.
};

/// Holds the buffers of a problem and runs candidates on them. Not thread-safe; does not own the device.
class Measurement {
 public:
  /// Allocates input, parameters and output, each between guard regions. Throws UserError when the memory
  /// does not suffice.
  Measurement(Device& device, const Problem& problem, std::uint64_t seed);

  /// Verifies on the three distributions (output poisoned before each, guards checked after each), then times
  /// on the uniform one. Whatever the candidate does wrong is the returned record's status and reason; a
  /// fault that takes the process along is the caller's to notice.
  TrialRecord evaluate(const Candidate& candidate, const TimingOptions& timing);

  /// Times a candidate that was verified before.
  Timing time(const Candidate& candidate, const TimingOptions& options);

 private:
  std::unique_ptr<Executable> make_executable(const Candidate& candidate);
  void bind(const Executable& executable);
  void fill_inputs(Distribution distribution);
  void verify(Executable& executable, const Candidate& candidate, TrialRecord& record);
  const GuardedBuffer* damaged() const;

  Device& device_;
  Problem problem_;
  std::uint64_t seed_;
  std::optional<Distribution> filled_;  // what the inputs hold now
  std::vector<std::unique_ptr<GuardedBuffer>> tensors_;
  std::unique_ptr<GuardedBuffer> packed_, workspace_;
  Buffers buffers_;
};

}  // namespace knobwise
