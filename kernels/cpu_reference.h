// The family that is always there: the oracle itself as an executable.
#pragma once

#include "kernels/family.h"

namespace knobwise {

/// The family "reference" of the CPU backend: built in, supports every problem, computes in float64 and
/// rounds the result to the problem's type. Slow and right: the last resort of a lookup and the yardstick of
/// every other family.
///
/// Its one knob is `threads`. The object lives as long as the program; thread-safe.
const KernelFamily& cpu_reference_family();

}  // namespace knobwise
