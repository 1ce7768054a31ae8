// oneDNN as a candidate in the race: what people run on a CPU today.
#pragma once

#include "kernels/family.h"

namespace knobwise {

/// The family "onednn" of the CPU backend, built in: fp32 convolution by oneDNN from plain tensors to plain
/// tensors, with weights reordered in prepare and everything else inside the timed run.
///
/// Knobs: `format`, the order in memory that the primitive works in ("any" leaves it to the library), and
/// `algorithm`. Element-wise steps at the head of the epilogue, each kind once, are the primitive's
/// post-operations; what remains is our own passes over its output (kernels/vendor/plain_epilogue.h). The
/// library is loaded at run time; without it, or built without its headers, every problem is unsupported,
/// with the reason. The object lives as long as the program; thread-safe.
const KernelFamily& onednn_family();

}  // namespace knobwise
