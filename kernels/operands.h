// Inputs for verification and timing: the same numbers on the host and on every device, from a seed and an
// index.
#pragma once

#include <cstdint>

#include "kernels/accuracy.h"
#include "kernels/problem.h"

namespace knobwise {

/// How one tensor is filled. Element i is a pure function of these and i, so any part can be made anywhere.
struct OperandFill {
  enum class Kind : int { uniform, normal, integers };
  Kind kind = Kind::uniform;
  std::uint64_t seed = 0;
  /// uniform: low + (high - low) * u, u in [0, 1); normal: mean `low`, deviation `high`; integers: from low
  /// to high inclusive.
  double low = 0, high = 1;
};

/// The fill of the input (parameter = -1) or of parameter `parameter` of the problem for a distribution and
/// seed.
OperandFill operand_fill(const Problem& problem, Distribution distribution, std::uint64_t seed,
                         int parameter);

/// Element `index`, before rounding to the tensor's type. From splitmix64 on (seed, index): uniform from the
/// top 24 bits; normal as the sum of the four 16-bit fields, centred and scaled to unit variance (Irwin-Hall
/// of order 4: |z| < 3.5).
double operand_value(const OperandFill& fill, std::int64_t index);

/// Fills host memory on all cores, rounding to `dtype` (to nearest, ties to even).
void fill_host(void* data, DType dtype, std::int64_t elements, const OperandFill& fill);

/// Reads element `index` of a tensor as double.
double load_element(const void* data, DType dtype, std::int64_t index);

/// Writes element `index`, rounded to `dtype` (to nearest, ties to even).
void store_element(void* data, DType dtype, std::int64_t index, double value);

}  // namespace knobwise
