// Verifying and timing configurations of one problem on one device.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/records.h"
#include "kernels/device.h"
#include "tuner/evaluation/test_bench.h"

namespace knobwise {

/// One configuration to measure.
struct Candidate {
  const KernelFamily* family = nullptr;
  Configuration configuration;
  CompiledCode code;  ///< Empty for built-in families.
};

/// Runs candidates on a test bench. Not thread-safe; does not own the device.
class Measurement {
 public:
  Measurement(Device& device, const Problem& problem, std::unique_ptr<TestBench> bench);

  /// Verifies on every distribution of the bench (guards checked after each), then, once `quiet` has
  /// returned, times on the last. Whatever the candidate does wrong is the returned record's status and
  /// reason; a fault that takes the process along is the caller's to notice.
  TrialRecord evaluate(const Candidate& candidate, const TimingOptions& timing,
                       const std::function<void()>& quiet);

  /// Times a candidate that was verified before.
  Timing time(const Candidate& candidate, const TimingOptions& options);

 private:
  std::unique_ptr<Executable> make_executable(const Candidate& candidate);
  void bind(const Executable& executable);
  void verify(Executable& executable, const Candidate& candidate, TrialRecord& record);
  const GuardedBuffer* damaged() const;

  Device& device_;
  Problem problem_;
  std::unique_ptr<TestBench> bench_;
  std::unique_ptr<GuardedBuffer> packed_, workspace_;
  Buffers buffers_;
};

}  // namespace knobwise
