// A backend made for tests of the lookup: it stands in for kernels/registry.cpp at link time, so that what
// the dispatcher asks for (families, devices, compilers) is what a test sets up. The results are real: its
// kernels compute the float64 reference, and verification is the CPU's.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/family.h"

namespace knobwise::test {

/// Its knobs: `tile` (1 to 64, must divide the output's width), `scratch` (workspace in bytes),
/// `deterministic`, `error` (a relative error to add), `fault` ("none", "wrong", "throws",
/// "does_not_compile").
class FakeFamily : public KernelFamily {
 public:
  FakeFamily(std::string name, bool builtin) : name_(std::move(name)), builtin_(builtin) {}

  std::string_view name() const override { return name_; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override;
  std::string source_hash() const override {
    ++hash_questions;
    return hash;
  }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;
  std::unique_ptr<Executable> create_builtin(const Problem& problem, const Configuration& configuration,
                                             Device& device) const override;
  bool builtin() const override { return builtin_; }

  std::string hash = "v1";
  bool supported = true;
  mutable std::atomic<int> hash_questions{0};

 private:
  std::string name_;
  bool builtin_;
};

/// A configuration of FakeFamily.
Configuration fake_configuration(std::int64_t tile, std::int64_t scratch = 0, bool deterministic = true,
                                 double error = 0, const std::string& fault = "none");

/// Everything the backend answers from. Set up before a dispatcher is made; the counters count since reset().
struct FakeMachine {
  DeviceInfo info;
  std::string compile_options, compiler_version;
  FakeFamily tiled{"tiled", false};
  FakeFamily vendor{"vendor", true};
  FakeFamily reference{"reference", true};
  std::atomic<int> compiles{0}, verifications{0}, prepares{0}, runs{0}, version_questions{0};

  void reset();
};
FakeMachine& machine();

}  // namespace knobwise::test
