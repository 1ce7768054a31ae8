// From sums made on the device to the figures that callers see.
#pragma once

#include "kernels/accuracy.h"
#include "kernels/cuda/error_sums.h"

namespace knobwise {

/// As ErrorAccumulator::metrics() computes them.
ErrorMetrics metrics_of(const ErrorSums& sums);

}  // namespace knobwise
