// Epilogue steps on plain fp32 tensors in host memory, for libraries that lack them.
#pragma once

#include <cstddef>

#include "kernels/device.h"
#include "kernels/problem.h"

namespace knobwise {

/// True if a step from `first` on is not element by element: apply_plain_epilogue() then works channels
/// first, whatever the problem's layout.
bool epilogue_wants_channels_first(const Problem& problem, std::size_t first);

/// Applies the steps from `first` to the end. `values` holds extents_before(first), in nchw order if
/// epilogue_wants_channels_first(), else in the problem's, and is overwritten; the result goes to `output` in
/// the problem's order, which may be `values` itself if all of these steps are element by element. Runs on
/// all cores.
void apply_plain_epilogue(const Problem& problem, std::size_t first, const Buffers& buffers, float* values,
                          float* output);

}  // namespace knobwise
