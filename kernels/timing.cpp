#include "kernels/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

// Linear interpolation between order statistics, as numpy's default.
double quantile(const std::vector<float>& sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// The first run of a short kernel may pay for more than itself.
constexpr double kFirstRunAllowanceUs = 200;

}  // namespace

void summarise(Timing& timing, Backend backend) {
  std::vector<float> sorted = timing.samples_us;
  std::sort(sorted.begin(), sorted.end());
  timing.median_us = quantile(sorted, 0.5);
  timing.min_us = sorted.front();
  timing.mean_us = std::accumulate(sorted.begin(), sorted.end(), 0.0) / static_cast<double>(sorted.size());
  timing.summary_us = backend == Backend::cuda ? timing.median_us : quantile(sorted, 0.25);
}

bool enough_samples(const std::vector<float>& samples, const TimingOptions& options, Backend backend) {
  if (static_cast<int>(samples.size()) >= options.max_samples) return true;
  if (static_cast<int>(samples.size()) < options.min_samples) return false;
  std::vector<float> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  if (backend == Backend::cpu) {
    const double quartile = quantile(sorted, 0.25);
    return quartile - sorted.front() <= 2 * options.relative_halfwidth * quartile;
  }
  const double count = static_cast<double>(sorted.size());
  const double half_ranks = 1.96 * std::sqrt(count) / 2;
  const double low = std::floor(count / 2 - half_ranks), high = std::ceil(count / 2 + half_ranks);
  if (low < 0 || high > count - 1) return false;
  const double width = sorted[static_cast<std::size_t>(high)] - sorted[static_cast<std::size_t>(low)];
  return width <= 2 * options.relative_halfwidth * quantile(sorted, 0.5);
}

Timing sample_runs(const std::function<double()>& run_us, const TimingOptions& options, Backend backend) {
  const double limit_us = 1e6 * options.max_seconds;
  const auto hopeless = [](double fastest, double limit) { return limit > 0 && fastest > limit; };
  Timing timing;
  double fastest = std::numeric_limits<double>::infinity(), spent_us = 0;
  Clock::time_point start = Clock::now();
  const auto out_of_time = [&] {
    const double wall_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    return std::max(spent_us, wall_us) >= limit_us;
  };
  const auto run = [&] {
    const double us = run_us();
    fastest = std::min(fastest, us);
    spent_us += us;
    return us;
  };
  for (int i = 0; i < options.warmup && !out_of_time(); ++i) {
    const double us = run();
    if (!hopeless(us - kFirstRunAllowanceUs, 2 * options.abandon_above_us)) continue;
    timing.samples_us.push_back(static_cast<float>(us));
    timing.abandoned = true;
    break;
  }
  spent_us = 0;
  start = Clock::now();
  while (!timing.abandoned) {
    timing.samples_us.push_back(static_cast<float>(run()));
    if (out_of_time() || enough_samples(timing.samples_us, options, backend)) break;
    const bool beaten = static_cast<int>(timing.samples_us.size()) >= options.min_samples &&
                        hopeless(fastest, options.beaten_above_us);
    timing.abandoned = beaten || hopeless(fastest, options.abandon_above_us);
  }
  summarise(timing, backend);
  return timing;
}

}  // namespace knobwise
