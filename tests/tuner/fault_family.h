// A CPU family whose configurations fail in every way that a bad kernel can.
#pragma once

#include <string>
#include <vector>

#include "kernels/family.h"

namespace knobwise::test {

/// Scales its input by one weight (a conv1d with one channel and one tap), rightly or with the fault that the
/// knob `fault` names; the knob `variant` makes several of each. Compiling `compiler_hangs` waits for the
/// FIFO that the environment variable KNOBWISE_TEST_FIFO names.
class FaultFamily : public KernelFamily {
 public:
  static const std::vector<std::string>& faults();  ///< "none" first.

  std::string_view name() const override { return "faulty"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override;
  std::string source_hash() const override { return "test"; }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;
};

/// The one object, registered with the CPU backend by the first call.
const FaultFamily& fault_family();

}  // namespace knobwise::test
