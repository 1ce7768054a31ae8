// A family with a space small enough to search whole, for tests and benchmarks of the evaluation.
#pragma once

#include <set>
#include <string>

#include "tests/tuner/respaced_family.h"

namespace knobwise::test {

/// Another family under the name "narrowed": knobs that are not free keep their defaults. Sources end in a
/// definition named after `nonce`, so that no compiler's cache knows them. `inner` must live as long.
class NarrowedFamily : public RespacedFamily {
 public:
  NarrowedFamily(const KernelFamily& inner, const std::set<std::string>& free_knobs, std::string nonce);

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

 private:
  std::string nonce_;
};

}  // namespace knobwise::test
