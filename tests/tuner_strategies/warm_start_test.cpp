// What the default strategy makes of configurations that did well elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "tests/tuner_strategies/spaces.h"
#include "tuner/simulation/recording.h"
#include "tuner/strategies/strategy.h"

namespace knobwise {
namespace {

constexpr std::size_t kSuggestions = 8;

std::vector<std::uint64_t> fastest(const Recording& recording, std::size_t count) {
  std::vector<std::uint64_t> indices(recording.times.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::stable_sort(indices.begin(), indices.end(),
                   [&](std::uint64_t a, std::uint64_t b) { return recording.times[a] < recording.times[b]; });
  indices.resize(count);
  return indices;
}

// Trials until one is within `factor` of the optimum.
std::size_t trials_to(const BoundSpace& space, const Recording& recording,
                      const std::vector<std::uint64_t>& suggestions, double factor, std::uint64_t seed) {
  const double good = factor * *std::min_element(recording.times.begin(), recording.times.end());
  const auto strategy = make_strategy("auto", space, seed);
  strategy->suggest(suggestions);
  for (std::size_t trials = 1; trials < 400; ++trials) {
    const std::uint64_t index = strategy->ask(1).at(0);
    if (recording.times[index] <= good) return trials;
    strategy->tell({index, recording.times[index]});
  }
  return 400;
}

TEST(WarmStart, SuggestionsComeFirstAndOnce) {
  const BoundSpace space = test::make_space({"range(10)", "range(10)"});
  const auto strategy = make_strategy("auto", space, 1);
  strategy->suggest({42, 7, 42, 9});
  strategy->tell({7, 1.0});
  std::vector<std::uint64_t> proposals = strategy->ask(5);
  EXPECT_EQ(proposals[0], 42u);
  EXPECT_EQ(proposals[1], 9u);
  std::sort(proposals.begin(), proposals.end());
  EXPECT_EQ(std::unique(proposals.begin(), proposals.end()), proposals.end());
  EXPECT_THAT(proposals, testing::Not(testing::Contains(7u)));
}

std::vector<std::uint64_t> proposals_of(const std::string& strategy_name, const BoundSpace& space,
                                        const std::vector<double>& times,
                                        const std::vector<std::uint64_t>& suggestions, std::uint64_t seed,
                                        std::size_t count) {
  const auto strategy = make_strategy(strategy_name, space, seed);
  strategy->suggest(suggestions);
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count) {
    const auto asked = strategy->ask(1);
    if (asked.empty()) break;
    proposals.push_back(asked.front());
    strategy->tell({asked.front(), times[asked.front()]});
  }
  return proposals;
}

TEST(WarmStart, SuggestionsTakeTurnsWithTheSearchWhileTheyLead) {
  const BoundSpace space = test::make_space({"range(100)", "range(100)"});
  std::vector<double> times(space.size());
  std::iota(times.begin(), times.end(), 1.0);
  const std::vector<std::uint64_t> cold = proposals_of("auto", space, times, {}, 1, 4);
  ASSERT_THAT(cold, testing::Each(testing::Gt(5u)));
  EXPECT_EQ(proposals_of("auto", space, times, {1, 2, 3, 4}, 1, 8),
            (std::vector<std::uint64_t>{1, 2, cold[0], 3, cold[1], 4, cold[2], cold[3]}));
}

TEST(WarmStart, TwoSuggestionsThatDoNotLeadAreEnough) {
  const BoundSpace space = test::make_space({"range(100)", "range(100)"});
  std::vector<double> times(space.size());
  std::iota(times.begin(), times.end(), 1.0);
  const std::vector<std::uint64_t> slow = {9999, 9998, 9997, 9996};
  std::vector<std::uint64_t> expected = proposals_of("auto", space, times, {}, 1, 8);
  expected.insert(expected.begin(), {9999, 9998});
  EXPECT_EQ(proposals_of("auto", space, times, slow, 1, 10), expected);
  for (std::uint64_t index : slow) times[index] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(proposals_of("auto", space, times, slow, 1, 10), expected);
}

TEST(WarmStart, EveryStrategyTakesSuggestions) {
  const BoundSpace space = test::make_space({"range(4)", "range(3)"});
  for (const auto& [name, explanation] : strategy_names()) {
    const auto strategy = make_strategy(name, space, 1);
    strategy->suggest({11, 3});
    std::size_t proposals = 0;
    for (auto asked = strategy->ask(1); !asked.empty(); asked = strategy->ask(1), ++proposals)
      strategy->tell({asked[0], static_cast<double>(asked[0] + 1)});
    EXPECT_EQ(proposals, 12u) << name;
  }
}

// A kernel on a problem whose optimum lies `shift` steps from that of the problem 0.
Recording neighbour(const BoundSpace& space, double shift) {
  Recording recording{"synthetic", {}};
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const Positions at = space.positions(index);
    const double x = at[0] - shift, y = at[1] + shift, z = at[3];
    // Ripples: what a model of the smooth part does not know.
    const double ripple = 1 + 0.3 * ((at[0] * 7 + at[1] * 5 + at[2] * 3 + at[3] * 11) % 13) / 13.0;
    recording.times.push_back(
        std::exp(0.03 * (x - 9) * (x - 9) + 0.02 * (x - y) * (x - y) + 0.05 * (z - 5) * (z - 5)) *
        (at[2] == 1 ? 1 : 1.7) * ripple);
  }
  return recording;
}

// Mean trials to `factor` x the optimum, without and with the fastest of another recording.
struct Comparison {
  double cold = 0, warm = 0;
};
Comparison compare(const BoundSpace& space, const Recording& from, const Recording& to, double factor,
                   std::uint64_t seeds) {
  Comparison mean;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    mean.cold += static_cast<double>(trials_to(space, to, {}, factor, seed));
    mean.warm += static_cast<double>(trials_to(space, to, fastest(from, kSuggestions), factor, seed));
  }
  mean.cold /= static_cast<double>(seeds), mean.warm /= static_cast<double>(seeds);
  std::cout << "mean trials to " << factor << " x the optimum: " << mean.cold << " cold, " << mean.warm
            << " warm\n";
  return mean;
}

TEST(WarmStart, ANeighbouringProblemsResultsSaveTrials) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)", "range(8)"});
  const Recording here = neighbour(space, 0);
  const Comparison near = compare(space, neighbour(space, 1), here, 1.1, 20);
  EXPECT_LT(3 * near.warm, near.cold);
  const Comparison farther = compare(space, neighbour(space, -2), here, 1.1, 20);
  EXPECT_LE(farther.warm, farther.cold + kSuggestions);
}

std::vector<std::uint64_t> without(std::vector<std::uint64_t> proposals,
                                   const std::vector<std::uint64_t>& left_out) {
  std::erase_if(proposals, [&](std::uint64_t index) {
    return std::find(left_out.begin(), left_out.end(), index) != left_out.end();
  });
  return proposals;
}

// Some suggestions that the search would propose itself, early or late, and some that it would not.
TEST(WarmStart, TheSearchGoesOnAsWithoutSuggestions) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)", "range(8)"});
  const std::vector<double> times = neighbour(space, 0).times;
  for (const std::string strategy : {"auto", "bayes"}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const auto cold = proposals_of(strategy, space, times, {}, seed, 80);
      const std::vector<std::uint64_t> suggestions = {cold[60], cold[3], 77, cold[12], cold[30], 4000};
      const auto warm = proposals_of(strategy, space, times, suggestions, seed, 80);
      auto own = without(warm, suggestions);
      auto expected = without(cold, suggestions);
      ASSERT_GE(own.size(), 74u);
      const std::size_t common = std::min(own.size(), expected.size());
      own.resize(common), expected.resize(common);
      EXPECT_EQ(own, expected) << strategy << " with seed " << seed;
    }
  }
}

// Cards of different makers and generations. The search does not depend on suggestions, which therefore
// cost themselves at the most.
TEST(WarmStart, AnotherDevicesResultsDoNoHarm) {
  const std::string folder = "../shared/recorded_spaces/convolution_milo.";
  if (!std::filesystem::exists(folder + "T1.json")) GTEST_SKIP() << folder << "T1.json is not here";
  const BoundSpace space = SearchSpace::load(folder + "T1.json").bind();
  std::vector<Recording> recordings;
  for (const std::string device : {"A100", "A4000", "MI250X"})
    recordings.push_back(load_recording(folder + device + ".T4.json.gz", space));
  double cold = 0, warm = 0;
  for (const Recording& from : recordings) {
    for (const Recording& to : recordings) {
      if (&from == &to) continue;
      const Comparison mean = compare(space, from, to, 1.3, 8);
      EXPECT_LE(mean.warm, mean.cold + kSuggestions) << to.source << " after " << from.source;
      cold += mean.cold;
      warm += mean.warm;
    }
  }
  EXPECT_LT(warm, cold);
}

TEST(WarmStart, BadSuggestionsCostTwoTrialsAtMost) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)", "range(8)"});
  const Recording recording = neighbour(space, 0);
  std::vector<std::uint64_t> order = fastest(recording, recording.times.size());
  const std::vector<std::uint64_t> worst(order.rbegin(),
                                         order.rbegin() + static_cast<std::ptrdiff_t>(kSuggestions));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::size_t cold = trials_to(space, recording, {}, 1.1, seed);
    EXPECT_LE(trials_to(space, recording, worst, 1.1, seed), cold + 2) << "with seed " << seed;
  }
}

}  // namespace
}  // namespace knobwise
