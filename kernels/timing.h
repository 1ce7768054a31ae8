// From raw samples to the figures that trials are ranked by.
#pragma once

#include <functional>
#include <vector>

#include "kernels/device.h"

namespace knobwise {

/// Computes every figure of `timing` from its samples (at least one).
void summarise(Timing& timing, Backend backend);

/// Whether sampling may stop: min_samples reached and the 95% confidence interval of the median, from order
/// statistics (binomial, normal approximation), within +-relative_halfwidth of it; or max_samples reached.
bool enough_samples(const std::vector<float>& samples, const TimingOptions& options);

/// Warm-up and sampling, the same for every backend: each call of `run_us` makes one run and returns its
/// time.
Timing sample_runs(const std::function<double()>& run_us, const TimingOptions& options, Backend backend);

}  // namespace knobwise
