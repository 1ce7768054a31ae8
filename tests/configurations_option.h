// Which configurations of each problem the tests of the convolution families run, and how many.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// KNOBWISE_CONFIGURATIONS: a number, or "all", which is 0 here; `usual` where it is not set.
inline std::uint64_t configurations_per_problem(std::uint64_t usual) {
  const char* option = std::getenv("KNOBWISE_CONFIGURATIONS");
  if (option == nullptr) return usual;
  return std::string_view(option) == "all" ? 0 : std::strtoull(option, nullptr, 10);
}

/// The default configuration of a space, then a seeded sample of `count` others, or all of them if `count` is
/// 0.
inline std::vector<Configuration> some_configurations(const BoundSpace& space, std::uint64_t count,
                                                      std::uint64_t seed) {
  std::vector<Configuration> configurations{space.configuration(space.default_index())};
  std::mt19937_64 random(seed);
  for (const std::uint64_t index : space.sample(count ? count : space.size(), random))
    configurations.push_back(space.configuration(index));
  return configurations;
}

}  // namespace knobwise
