// Epilogue steps on plain fp32 tensors in host memory, for libraries that lack them.
#pragma once

#include <cstddef>

#include "kernels/device.h"
#include "kernels/problem.h"

namespace knobwise {

/// Applies the steps from `first` to the end, none of which may be `residual`. `values` holds
/// extents_before(first) in nchw order (any order if all of these steps are element-wise) and is overwritten;
/// the result goes to `output`, which may be `values` itself if no step reduces. Runs on all cores.
void apply_plain_epilogue(const Problem& problem, std::size_t first, const Buffers& buffers, float* values,
                          float* output);

}  // namespace knobwise
