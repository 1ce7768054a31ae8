// A family with another space.
#pragma once

#include <string>
#include <utility>

#include "kernels/family.h"

namespace knobwise::test {

/// Another family's kernels under a name and with a space of their own, which may hold nothing that `inner`
/// cannot instantiate. `inner` must live as long.
class RespacedFamily : public KernelFamily {
 public:
  RespacedFamily(const KernelFamily& inner, std::string name, std::string space_json)
      : inner_(inner), name_(std::move(name)), space_(std::move(space_json)) {}

  std::string_view name() const override { return name_; }
  Backend backend() const override { return inner_.backend(); }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override {
    return inner_.unsupported_reason(problem, device);
  }
  std::string_view space_json() const override { return space_; }
  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo& device) const override {
    return inner_.extra_constants(problem, device);
  }
  std::string source_hash() const override { return inner_.source_hash(); }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override {
    return inner_.instantiate(problem, configuration, device);
  }
  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    return inner_.tile(problem, configuration);
  }

 private:
  const KernelFamily& inner_;
  std::string name_, space_;
};

}  // namespace knobwise::test
