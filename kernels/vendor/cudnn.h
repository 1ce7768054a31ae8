// cuDNN as a candidate in the race: what people run on an NVIDIA GPU today.
#pragma once

#include "kernels/family.h"

namespace knobwise {

/// The family "cudnn" of the CUDA backend, built in: the convolution by cuDNN, everything else by our own
/// passes (kernels/cuda/epilogue_passes.h), all inside the timed run; weights are reordered in prepare.
///
/// Knobs: `algorithm`; `precision` (fp32 forbids the tensor cores, tf32 allows them); `format`, the layout
/// that cuDNN works in, with the conversions from and to the problem's layout inside the run. Combinations
/// that cuDNN does not support fail as trials (unsupported). The library is loaded at run time; without it
/// every problem is unsupported, with the reason. The object lives as long as the program; thread-safe.
const KernelFamily& cudnn_family();

}  // namespace knobwise
