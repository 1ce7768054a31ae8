// What the convolution kernels do with an epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/problem.h"

namespace knobwise {

/// An epilogue that the convolution kernels fuse: element-wise steps, then perhaps a reduction over depth,
/// element-wise steps, then perhaps a softmax over the channels, element-wise steps; or element-wise steps
/// around one norm. A value type; members are indices of steps.
struct FusedEpilogue {
  std::optional<std::size_t> reduction;
  std::optional<std::size_t> softmax;
  std::optional<std::size_t> norm;
  std::size_t between = 0;  ///< First step after the reduction or norm, or the end of the leading steps.
  std::size_t after = 0;    ///< First step after the softmax, or the end.

  /// Channels that the norm averages together; 0 without a norm.
  std::int64_t norm_channels(const Problem& problem) const;

  /// Definitions that kernels/cuda/direct_conv.cuh expects of the problem's epilogue: KW_EPILOGUE_*,
  /// KW_NORM_* and the functions kw_before, kw_between and kw_after.
  std::string source(const Problem& problem) const;
};

/// Fits the problem's epilogue to what direct_conv fuses. If it does not fit, returns nothing and says why in
/// `reason`, in words for people.
std::optional<FusedEpilogue> plan_fused_epilogue(const Problem& problem, std::string& reason);

}  // namespace knobwise
