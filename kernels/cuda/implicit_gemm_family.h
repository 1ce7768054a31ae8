// The implicit GEMM on the tensor cores whose gathered operands are in registers: mma.sync, and wgmma where there is.
#pragma once

#include "kernels/cuda/implicit_gemm_geometry.h"
#include "kernels/family.h"

namespace knobwise {

/// Family `implicit_gemm`: compute capability 8.0 and up.
const KernelFamily& cuda_implicit_gemm_family();

/// Requires a problem that the family supports and a configuration of its space. `multiprocessors` are those of the
/// device, among which blocks of several tiles share out the tiles.
implicit_gemm::Geometry implicit_gemm_tiling(const Problem& problem, const Configuration& configuration,
                                             int multiprocessors);

}  // namespace knobwise
