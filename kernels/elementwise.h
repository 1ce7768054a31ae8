// Element-wise epilogue steps in float64: the definition that every kernel is held to.
#pragma once

#include "kernels/problem.h"

namespace knobwise {

/// The step on one element; `residual` is what a residual step adds. NaN stays NaN in every step.
double apply_elementwise(const EpilogueStep& step, double x, double residual);

/// One step of a running reduction: min and max keep NaN, as frameworks do; mean and sum add.
double combine(EpilogueOp reduction, double a, double b);

}  // namespace knobwise
