#include "kernels/cuda/error_metrics.h"

#include <cmath>

namespace knobwise {

ErrorMetrics metrics_of(const ErrorSums& sums) {
  ErrorMetrics metrics;
  metrics.checked = sums.checked;
  metrics.nans = sums.nans;
  if (sums.checked > 0)
    metrics.frac_outside = static_cast<double>(sums.outside) / static_cast<double>(sums.checked);
  const double numbers = static_cast<double>(sums.checked - sums.nans);
  if (numbers == 0) return metrics;
  metrics.max_abs = sums.max_abs;
  metrics.mean_abs = sums.sum_abs / numbers;
  metrics.rms = std::sqrt(sums.sum_squares / numbers);
  if (sums.sum_squares > 0) metrics.rel_fro = std::sqrt(sums.sum_squares / sums.sum_ref_squares);
  return metrics;
}

}  // namespace knobwise
