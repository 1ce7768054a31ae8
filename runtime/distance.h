// How far one problem is from another, for lookups that find no exact answer.
#pragma once

#include <optional>

#include "kernels/problem.h"

namespace knobwise {

/// The sum over the dimensions of |log2(a / b)|: per dimension, so that 64x1x1 and 4x4x4 are far apart
/// although their products are equal. None when the problems differ in what a configuration cannot bridge:
/// rank, type, layout, bias, or the steps of the epilogue (their numbers do not count).
std::optional<double> problem_distance(const Problem& a, const Problem& b);

}  // namespace knobwise
