// The family "direct_conv" of the CPU backend: vectors of output positions times register tiles of channels.
#pragma once

#include "kernels/family.h"

namespace knobwise {

/// fp32, channels first, every rank, stride, dilation and group. Fuses element-wise steps, and by its knob
/// `fuse_epilogue` a reduction over depth, a softmax over channels, or a norm whose groups lie within the
/// convolution's; any other step of the epilogue becomes a launch of its own.
///
/// The object lives as long as the program; thread-safe.
const KernelFamily& cpu_direct_conv_family();

}  // namespace knobwise
