// How many configurations of each problem the tests of the convolution families run.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace knobwise {

/// KNOBWISE_CONFIGURATIONS: a number, or "all", which is 0 here; `usual` where it is not set.
inline std::uint64_t configurations_per_problem(std::uint64_t usual) {
  const char* option = std::getenv("KNOBWISE_CONFIGURATIONS");
  if (option == nullptr) return usual;
  return std::string_view(option) == "all" ? 0 : std::strtoull(option, nullptr, 10);
}

}  // namespace knobwise
