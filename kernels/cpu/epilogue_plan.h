// Which steps of an epilogue direct_conv fuses and which become launches of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/problem.h"

namespace knobwise {

/// A chain cut into what the convolution's launch does: element-wise steps [0, reduction), a reduction over
/// depth with the element-wise steps after it, a softmax or norm with the element-wise steps after it. Steps
/// from `end` on remain. A value type.
struct EpiloguePlan {
  std::optional<std::size_t> reduction;  ///< Index of the reduction over depth.
  std::optional<std::size_t> combine;    ///< Index of the softmax or norm.
  std::size_t end = 0;

  bool fuses() const { return reduction || combine; }
};

/// The longest prefix that can be fused; with `fuse` false only the element-wise steps at its head.
EpiloguePlan plan_epilogue(const Problem& problem, bool fuse);

/// One past the element-wise steps without parameters that begin at `first`.
std::size_t end_of_elementwise(const Problem& problem, std::size_t first);

/// Channels that a norm averages together.
std::int64_t norm_channels(const Problem& problem, std::size_t step);

/// Index into Problem::parameters() of the first parameter of a step that has any.
std::size_t first_parameter(const Problem& problem, std::size_t step);

}  // namespace knobwise
