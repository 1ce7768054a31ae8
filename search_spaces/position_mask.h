// Sets of positions in one knob's list of values. Internal to search_spaces/.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace knobwise {

/// Bit i of the words is position i.
using PositionMask = std::vector<std::uint64_t>;

inline PositionMask full_mask(std::size_t size) {
  PositionMask mask((size + 63) / 64, ~std::uint64_t{0});
  if (size % 64 != 0) mask.back() = (std::uint64_t{1} << (size % 64)) - 1;
  return mask;
}

/// `visit` may remove the position it is given.
template <class Visit>
void for_each_position(const PositionMask& mask, Visit visit) {
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }
}

inline void remove(PositionMask& mask, std::uint32_t position) {
  mask[position / 64] &= ~(std::uint64_t{1} << (position % 64));
}

inline std::size_t count(const PositionMask& mask) {
  std::size_t total = 0;
  for (const std::uint64_t word : mask) total += static_cast<std::size_t>(std::popcount(word));
  return total;
}

inline bool is_empty(const PositionMask& mask) {
  return std::all_of(mask.begin(), mask.end(), [](std::uint64_t word) { return word == 0; });
}

}  // namespace knobwise
