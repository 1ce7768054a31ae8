// The sums that error metrics are made of. Compiles on the host and under NVRTC; includes nothing.
#pragma once

#ifdef __CUDACC_RTC__
#define KW_ERROR_FN __device__ inline
#else
#define KW_ERROR_FN inline
#endif

namespace knobwise {

/// What ErrorAccumulator (kernels/accuracy.h) keeps, with the same meaning. A plain value.
struct ErrorSums {
  double max_abs = 0, sum_abs = 0, sum_squares = 0, sum_ref_squares = 0;
  long long checked = 0, outside = 0, nans = 0;
};

/// Adds one output, as ErrorAccumulator::add() does.
KW_ERROR_FN void add_error(ErrorSums& sums, double out, double ref) {
  constexpr double kLargest = 1.7976931348623157e308;
  ++sums.checked;
  const bool out_is_nan = out != out, ref_is_nan = ref != ref;
  if (out_is_nan && ref_is_nan) return;
  if (out_is_nan || ref_is_nan) {
    ++sums.nans;
    ++sums.outside;
    return;
  }
  const double magnitude = ref < 0 ? -ref : ref;
  // Infinities agree or are infinitely wrong; their difference would be NaN.
  const double error = out == ref ? 0 : out > ref ? out - ref : ref - out;
  if (error > sums.max_abs) sums.max_abs = error;
  sums.sum_abs += error;
  sums.sum_squares += error * error;
  if (magnitude <= kLargest) sums.sum_ref_squares += ref * ref;
  if (!(error <= 1e-4 + 1e-4 * magnitude) || error > kLargest) ++sums.outside;
}

KW_ERROR_FN void merge_errors(ErrorSums& sums, const ErrorSums& other) {
  if (other.max_abs > sums.max_abs) sums.max_abs = other.max_abs;
  sums.sum_abs += other.sum_abs;
  sums.sum_squares += other.sum_squares;
  sums.sum_ref_squares += other.sum_ref_squares;
  sums.checked += other.checked;
  sums.outside += other.outside;
  sums.nans += other.nans;
}

}  // namespace knobwise
