// A family with a space small enough to search whole, for tests and benchmarks of the evaluation.
#pragma once

#include <set>
#include <string>

#include "kernels/family.h"

namespace knobwise::test {

/// Another family under the name "narrowed": knobs that are not free keep their defaults. Sources end in a
/// definition named after `nonce`, so that no compiler's cache knows them. `inner` must live as long.
class NarrowedFamily : public KernelFamily {
 public:
  NarrowedFamily(const KernelFamily& inner, const std::set<std::string>& free_knobs, std::string nonce);

  std::string_view name() const override { return "narrowed"; }
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
                             const DeviceInfo& device) const override;
  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    return inner_.tile(problem, configuration);
  }

 private:
  const KernelFamily& inner_;
  std::string space_;
  std::string nonce_;
};

}  // namespace knobwise::test
