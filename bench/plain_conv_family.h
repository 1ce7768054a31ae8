// The CUDA family "plain_conv": a direct convolution as it is written by hand.
#pragma once

#include "bench/plain_conv_geometry.h"
#include "kernels/family.h"

namespace knobwise {

/// For the designs that no other family has, because none of them pays: fp32 and nchw, without groups and
/// residuals. Its knobs are where operands, results and partial reductions live, what neighbouring threads
/// share, and how often a block goes over its input. Lives as long as the program.
const KernelFamily& plain_conv_family();

/// The problem must be supported and the configuration one of the space bound to it.
plain_conv::Geometry plain_conv_geometry(const Problem& problem, const Configuration& configuration);

}  // namespace knobwise
