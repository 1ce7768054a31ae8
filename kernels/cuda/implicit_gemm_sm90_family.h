// The implicit GEMM on Hopper's warpgroup instructions.
#pragma once

#include "kernels/cuda/implicit_gemm_sm90_geometry.h"
#include "kernels/family.h"

namespace knobwise {

/// Family `implicit_gemm_sm90`: compute capability 9.0; convolutions with stride 1 along w; element-wise
/// epilogues, a residual or a norm. The object lives as long as the program; thread-safe.
const KernelFamily& cuda_implicit_gemm_sm90_family();

/// The tiling that a configuration gives a problem that the family supports.
implicit_gemm_sm90::Geometry implicit_gemm_sm90_tiling(const Problem& problem,
                                                       const Configuration& configuration);

}  // namespace knobwise
