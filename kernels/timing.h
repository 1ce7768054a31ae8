// From raw samples to the figures that trials are ranked by.
#pragma once

#include <functional>
#include <vector>

#include "kernels/device.h"

namespace knobwise {

/// Computes every figure of `timing` from its samples (at least one).
void summarise(Timing& timing, Backend backend);

/// Whether sampling may stop: max_samples reached; or min_samples, and the figure that ranks is sure within
/// +-relative_halfwidth. For the median of a GPU: its 95% confidence interval, from order statistics
/// (binomial, normal approximation). For the lower quartile of a CPU, whose noise only adds: all below it
/// agrees with it.
bool enough_samples(const std::vector<float>& samples, const TimingOptions& options, Backend backend);

/// Warm-up and sampling, the same for every backend: each call of `run_us` makes one run and returns its
/// time.
Timing sample_runs(const std::function<double()>& run_us, const TimingOptions& options, Backend backend);

}  // namespace knobwise
