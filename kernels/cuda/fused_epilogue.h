// What the convolution kernels do with an epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/family.h"
#include "kernels/problem.h"

namespace knobwise {

/// An epilogue that the convolution kernels fuse: element-wise steps, then perhaps a reduction over depth,
/// element-wise steps, then perhaps a softmax over the channels, element-wise steps; or element-wise steps
/// around one norm or one residual. A value type; members are indices of steps.
struct FusedEpilogue {
  std::optional<std::size_t> reduction;
  std::optional<std::size_t> softmax;
  std::optional<std::size_t> norm;
  std::optional<std::size_t> residual;
  std::size_t between =
      0;  ///< First step after the reduction, norm or residual, or the end of the leading steps.
  std::size_t after = 0;  ///< First step after the softmax, or the end.

  /// Channels that the norm averages together; 0 without a norm.
  std::int64_t norm_channels(const Problem& problem) const;

  /// Definitions that the kernels expect of the problem's epilogue: KW_EPILOGUE_*,
  /// KW_NORM_* and the functions kw_before, kw_between and kw_after.
  std::string source(const Problem& problem) const;
};

/// The kernels' last argument: the residual, or the weights for a kernel that reads none.
BufferRef residual_argument(const Problem& problem, const FusedEpilogue& epilogue);

/// Fits the problem's epilogue to what the kernels fuse. If it does not fit, returns nothing and says why in
/// `reason`, in words for people.
std::optional<FusedEpilogue> plan_fused_epilogue(const Problem& problem, std::string& reason);

}  // namespace knobwise
