#include "tuner/simulation/score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace knobwise {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

// The expected best over all ordered draws without replacement, one by one.
std::vector<double> by_enumeration(const std::vector<double>& times, double median) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<double> sums(times.size(), 0.0);
  double permutations = 0;
  do {
    double best = kFailed;
    for (std::size_t t = 0; t < order.size(); ++t) {
      best = std::min(best, times[order[t]]);
      sums[t] += std::isfinite(best) ? best : median;
    }
    ++permutations;
  } while (std::next_permutation(order.begin(), order.end()));
  for (double& sum : sums) sum /= permutations;
  return sums;
}

TEST(RandomSearch, EqualsTheMeanOverAllOrdersOfDraws) {
  const std::vector<std::vector<double>> recordings = {
      {3, 1, 2, 5, 4}, {7}, {2, 2, 1, 1}, {kFailed, 4, kFailed, 9, 1, 6}, {kFailed, kFailed, 3, kFailed}};
  for (const std::vector<double>& times : recordings) {
    const RandomSearch random = random_search(times, times.size());
    const std::vector<double> expected = by_enumeration(times, random.median);
    for (std::size_t t = 0; t < times.size(); ++t) EXPECT_NEAR(random.expected[t], expected[t], 1e-12);
  }
}

TEST(RandomSearch, TakesMedianAndOptimumOfTheSuccesses) {
  const RandomSearch random = random_search({kFailed, 8, 2, kFailed, 4, 6}, 3);
  EXPECT_DOUBLE_EQ(random.median, 5);
  EXPECT_DOUBLE_EQ(random.optimum, 2);
}

TEST(RandomSearch, FindsNothingMoreBeyondTheSpace) {
  const RandomSearch random = random_search({3, 1, 2}, 5);
  EXPECT_DOUBLE_EQ(random.expected[2], 1);
  EXPECT_DOUBLE_EQ(random.expected[4], 1);
}

TEST(Score, IsOneForTheOptimumAtOnceAndZeroForRandomSearch) {
  const RandomSearch random = random_search({5, 1, 4, 2, 3, 9}, 5);
  EXPECT_DOUBLE_EQ(score(Curve(5, 1.0), random), 1);
  EXPECT_NEAR(score(random.expected, random), 0, 1e-12);
}

TEST(Score, CountsTheMedianBeforeTheFirstSuccess) {
  const RandomSearch random = random_search({5, 1, 4, 2, 3, 9, kFailed}, 2);
  EXPECT_DOUBLE_EQ(score({kFailed, 2}, random), score({random.median, 2}, random));
}

TEST(Score, LeavesOutWhatRandomSearchIsSureOf) {
  const RandomSearch random = random_search({2, 2, 2}, 3);
  EXPECT_EQ(score({2, 2, 2}, random), 0);
}

TEST(Estimate, GivesMeanAndStandardError) {
  const Estimate estimated = estimate({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(estimated.mean, 2.5);
  EXPECT_DOUBLE_EQ(estimated.standard_error, std::sqrt(5.0 / 3 / 4));
  EXPECT_EQ(estimate({7}).standard_error, 0);
}

TEST(Median, HandlesInfinities) {
  EXPECT_EQ(median({kFailed, 1, kFailed}), kFailed);
  EXPECT_EQ(median({kFailed, kFailed}), kFailed);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 9}), 3);
}

}  // namespace
}  // namespace knobwise
