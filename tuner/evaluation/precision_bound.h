// The error that a precision mode explains: more is a defect of the kernel, not rounding.
#pragma once

#include <string_view>

#include "kernels/problem.h"

namespace knobwise {

/// Largest relative Frobenius error that the precision mode and the rounding of `dtype` outputs account for.
///
/// Generous by a factor of 3 or more over what such kernels measure (fp32 1e-6, three-term splits 1e-5, tf32
/// and fp16 3e-4 to 5e-4, bf16 3e-3), far below what an indexing error causes. Modes without a bound of their
/// own (a vendor library's choice) get the widest.
double precision_bound(std::string_view precision, DType dtype);

}  // namespace knobwise
