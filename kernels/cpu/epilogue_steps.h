// The steps of an epilogue that direct_conv does not fuse: one launch each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/family.h"
#include "kernels/problem.h"

namespace knobwise {

/// Launches for the epilogue's steps [first, end) and the functions that they call.
struct EpilogueSteps {
  std::string source;
  std::vector<KernelLaunch> launches;
  BufferRef convolution_output;  ///< Where step `first` expects its tensor: output or workspace.
  std::size_t workspace_bytes = 0;
};

/// Steps that keep the shape work in place; a reduction moves the tensor on, the last one into the output.
/// Intermediate tensors lie one after another in the workspace, the convolution's first. `threads` run each
/// launch.
EpilogueSteps epilogue_steps(const Problem& problem, std::size_t first, int threads);

/// A functor `name` for the element-wise steps [first, last): `float operator()(float) const`.
std::string elementwise_functor(const Problem& problem, std::size_t first, std::size_t last,
                                const std::string& name);

}  // namespace knobwise
