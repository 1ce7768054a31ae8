// The CUDA family direct_conv: fp32 convolution on the FMA units with a fused epilogue.
#pragma once

#include "kernels/cuda/direct_conv_geometry.h"
#include "kernels/family.h"

namespace knobwise {

/// Direct convolution of any rank, stride, padding, dilation and groups for f32 tensors in layout nchw, on
/// devices of compute capability 8.0 and up. Fuses the epilogues of fused_epilogue.h. Every knob of
/// search_spaces/cuda_direct_conv.json is a compile-time constant of kernels/cuda/direct_conv.cuh. The object
/// lives as long as the program; thread-safe.
const KernelFamily& cuda_direct_conv_family();

/// The tiling that a configuration gives a problem that the family supports.
direct_conv::Geometry direct_conv_tiling(const Problem& problem, const Configuration& configuration);

}  // namespace knobwise
