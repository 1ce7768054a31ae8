#include "kernels/timing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace knobwise {
namespace {

// Linear interpolation between order statistics, as numpy's default.
double quantile(const std::vector<float>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

void summarise(Timing& timing, Backend backend) {
  std::vector<float> sorted = timing.samples_us;
  std::sort(sorted.begin(), sorted.end());
  timing.median_us = quantile(sorted, 0.5);
  timing.min_us = sorted.front();
  timing.mean_us = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  timing.summary_us = backend == Backend::cuda ? timing.median_us : quantile(sorted, 0.25);
}

bool enough_samples(const std::vector<float>& samples, const TimingOptions& options) {
  if (static_cast<int>(samples.size()) >= options.max_samples) return true;
  if (static_cast<int>(samples.size()) < options.min_samples) return false;
  std::vector<float> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const double count = static_cast<double>(sorted.size());
  const double half_ranks = 1.96 * std::sqrt(count) / 2;
  const double low = std::floor(count / 2 - half_ranks), high = std::ceil(count / 2 + half_ranks);
  if (low < 0 || high > count - 1) return false;
  const double width = sorted[static_cast<std::size_t>(high)] - sorted[static_cast<std::size_t>(low)];
  return width <= 2 * options.relative_halfwidth * quantile(sorted, 0.5);
}

}  // namespace knobwise
