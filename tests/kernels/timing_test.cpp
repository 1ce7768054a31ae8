// When sampling stops: early for what is beaten, and not before the figure is sure for what may win.
#include "kernels/timing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

namespace knobwise {
namespace {

/// A kernel whose runs take `us` each, or as the list says for the first ones.
struct Kernel {
  double us;
  std::vector<double> first{};
  int runs = 0;

  Timing time(const TimingOptions& options, Backend backend = Backend::cuda) {
    return sample_runs(
        [this] {
          const std::size_t run = static_cast<std::size_t>(runs++);
          return run < first.size() ? first[run] : us;
        },
        options, backend);
  }
};

TimingOptions against(double best_us) {
  TimingOptions options;
  options.abandon_above_us = 3 * best_us;
  options.beaten_above_us = 1.15 * best_us;
  return options;
}

TEST(Sampling, WhatIsTenTimesSlowerThanTheBestRunsOnce) {
  Kernel kernel{.us = 10'000};
  const Timing timing = kernel.time(against(1'000));
  EXPECT_EQ(kernel.runs, 1);
  EXPECT_TRUE(timing.abandoned);
  EXPECT_EQ(timing.summary_us, 10'000);
}

TEST(Sampling, WhatIsSeveralTimesSlowerThanTheBestGivesOneSample) {
  Kernel kernel{.us = 4'000};
  const Timing timing = kernel.time(against(1'000));
  EXPECT_EQ(kernel.runs, 3) << "two to warm up";
  EXPECT_EQ(timing.samples_us.size(), 1u);
  EXPECT_TRUE(timing.abandoned);
}

TEST(Sampling, WhatIsClearlyBeatenGivesTheFewestSamples) {
  // Noisy: the confidence interval alone would take all 50.
  std::mt19937 random(3);
  std::uniform_real_distribution<double> noise(1'300, 1'700);
  const Timing timing = sample_runs([&] { return noise(random); }, against(1'000), Backend::cuda);
  EXPECT_EQ(timing.samples_us.size(), 5u);
  EXPECT_TRUE(timing.abandoned);
}

TEST(Sampling, ASlowFirstRunOfAShortKernelEndsNothing) {
  Kernel kernel{.us = 10, .first = {150}};
  EXPECT_FALSE(kernel.time(against(10)).abandoned);
  EXPECT_GT(kernel.runs, 5);
}

TEST(Sampling, OneDisturbedSampleEndsNothing) {
  Kernel kernel{.us = 1'000, .first = {1'000, 1'000, 9'000}};
  const Timing timing = kernel.time(against(1'000));
  EXPECT_FALSE(timing.abandoned);
  EXPECT_EQ(timing.summary_us, 1'000);
}

TEST(Sampling, WhatMayWinIsSampledUntilTheMedianIsSure) {
  for (const double spread : {0.001, 0.5}) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> noise(1'000, 1'000 * (1 + spread));
    const Timing timing = sample_runs([&] { return noise(random); }, against(1'000), Backend::cuda);
    EXPECT_FALSE(timing.abandoned);
    EXPECT_EQ(timing.samples_us.size() < 20, spread < 0.01) << spread;
    EXPECT_LE(timing.samples_us.size(), 50u);
  }
}

TEST(Sampling, NoiseThatOnlyAddsDoesNotKeepAProcessorSampling) {
  // Every second run is disturbed: the median is never sure, the undisturbed time is.
  std::mt19937 random(5);
  std::uniform_real_distribution<double> disturbance(1.2, 3);
  int runs = 0;
  const auto run = [&] { return 1'000 * (++runs % 2 == 0 ? disturbance(random) : 1 + 1e-3 * (runs % 3)); };
  const Timing timing = sample_runs(run, TimingOptions{}, Backend::cpu);
  EXPECT_LT(timing.samples_us.size(), 10u);
  EXPECT_NEAR(timing.summary_us, 1'000, 20);
  // Where no two runs agree, all samples are taken.
  double us = 1'000;
  EXPECT_EQ(sample_runs([&] { return us *= 1.1; }, TimingOptions{}, Backend::cpu).samples_us.size(), 50u);
}

TEST(Sampling, TheTimeLimitLeavesOneSampleAtLeast) {
  Kernel kernel{.us = 3e6};
  const Timing timing = kernel.time(TimingOptions{});
  EXPECT_EQ(timing.samples_us.size(), 1u);
  EXPECT_EQ(kernel.runs, 2) << "one to warm up was enough";
}

TEST(Sampling, WhatHappensBetweenRunsCountsAgainstTheTimeLimit) {
  TimingOptions options;
  options.max_seconds = 0.05;
  options.relative_halfwidth = 0;
  int runs = 0;
  const Timing timing = sample_runs(
      [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));  // a flush
        return ++runs + 0.0;
      },
      options, Backend::cpu);
  EXPECT_LE(timing.samples_us.size(), 5u);
}

TEST(Sampling, AProcessorsSummaryIsTheLowerQuartile) {
  TimingOptions options;
  options.min_samples = options.max_samples = 5;
  options.warmup = 0;
  Kernel kernel{.us = 1, .first = {50, 10, 40, 20, 30}};
  EXPECT_EQ(kernel.time(options, Backend::cpu).summary_us, 20);
  kernel.runs = 0;
  EXPECT_EQ(kernel.time(options, Backend::cuda).summary_us, 30);
}

}  // namespace
}  // namespace knobwise
