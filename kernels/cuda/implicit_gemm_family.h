// The implicit GEMM on the tensor cores' mma.sync instructions.
#pragma once

#include "kernels/cuda/implicit_gemm_geometry.h"
#include "kernels/family.h"

namespace knobwise {

/// Family `implicit_gemm`: compute capability 8.0 and up.
const KernelFamily& cuda_implicit_gemm_family();

/// Requires a problem that the family supports and a configuration of its space.
implicit_gemm::Geometry implicit_gemm_tiling(const Problem& problem, const Configuration& configuration);

}  // namespace knobwise
