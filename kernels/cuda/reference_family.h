// The oracle on the GPU: every problem in plain float64.
#pragma once

#include "kernels/family.h"

namespace knobwise {

/// The family "reference" of the CUDA backend: the convolution and each step of the epilogue as a kernel of
/// its own on float64 scratch, sample by sample in chunks of bounded size, rounded once at the end. Supports
/// every problem. Its one knob, `precision`, has one value. The object lives as long as the program;
/// thread-safe.
const KernelFamily& cuda_reference_family();

/// The same computation with the output left in float64 (elements in the output's memory order): what
/// verification compares with.
KernelInstance float64_reference(const Problem& problem);

}  // namespace knobwise
