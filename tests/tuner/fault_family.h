// CPU families whose configurations fail in every way that a bad kernel can, or take a known time.
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

/// Runs that take a known time, as the knob `kind` says: "spins" takes 3 ms, "slow" 60 ms, "loops" does not
/// end. With the file that the environment variable KNOBWISE_TEST_MARKER names, "fails_later" is as "spins"
/// until it exists, then it exits; "killed_once" is killed as long as it does not exist, and makes it;
/// "killed" is always killed; "logs" is as "spins" and adds a line to it, the time of day in microseconds and
/// the variant. The environment variable KNOBWISE_TEST_KINDS lists those in the space as JSON, the default
/// first; the knob `variant` makes four of each.
class SpinFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "spinning"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override;
  std::string source_hash() const override { return "test"; }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;
};

/// A library's algorithms: each run takes 3 ms and 1 ms more for each step of the knob `algorithm`, of which
/// there are 30.
class LibraryFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "library"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override;
  std::string source_hash() const override { return "test"; }
  bool builtin() const override { return true; }
  std::unique_ptr<Executable> create_builtin(const Problem& problem, const Configuration& configuration,
                                             Device& device) const override;
};

/// Registers one of each of these families with the CPU backend; the first call does.
void register_test_families();

}  // namespace knobwise::test
