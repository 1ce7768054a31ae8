// Where an element of an activation tensor lies in memory.
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/problem.h"

namespace knobwise {

/// Coordinates of one element of an activation tensor.
struct Position {
  std::int64_t n = 0, c = 0, d = 0, h = 0, w = 0;

  auto operator<=>(const Position&) const = default;
};

/// The linear index of a position in a tensor of these extents.
inline std::int64_t memory_index(Layout layout, const Extents& e, const Position& p) {
  if (layout == Layout::nchw) return (((p.n * e.c + p.c) * e.d + p.d) * e.h + p.h) * e.w + p.w;
  return (((p.n * e.d + p.d) * e.h + p.h) * e.w + p.w) * e.c + p.c;
}

/// Inverse of memory_index().
inline Position position_at(Layout layout, const Extents& e, std::int64_t index) {
  Position p;
  const auto take = [&index](std::int64_t extent) {
    const std::int64_t digit = index % extent;
    index /= extent;
    return digit;
  };
  if (layout == Layout::nhwc) p.c = take(e.c);
  p.w = take(e.w);
  p.h = take(e.h);
  p.d = take(e.d);
  if (layout == Layout::nchw) p.c = take(e.c);
  p.n = index;
  return p;
}

}  // namespace knobwise
