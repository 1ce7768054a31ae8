// What the default strategy makes of configurations that did well elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
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

std::vector<std::uint64_t> first_proposals(const std::vector<std::uint64_t>& suggestions, std::size_t count) {
  const BoundSpace space = test::make_space({"range(100)", "range(100)"});
  const auto strategy = make_strategy("auto", space, 1);
  strategy->suggest(suggestions);
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count) {
    proposals.push_back(strategy->ask(1).at(0));
    strategy->tell({proposals.back(), static_cast<double>(proposals.back() + 1)});
  }
  return proposals;
}

TEST(WarmStart, SuggestionsComeBesidesTheRandomBeginning) {
  const std::vector<std::uint64_t> suggestions = {17, 4242, 99};
  const std::vector<std::uint64_t> cold = first_proposals({}, 10);
  ASSERT_THAT(cold, testing::Not(testing::Contains(testing::AnyOf(17u, 4242u, 99u))));
  std::vector<std::uint64_t> expected = suggestions;
  expected.insert(expected.end(), cold.begin(), cold.end());
  EXPECT_EQ(first_proposals(suggestions, 13), expected);
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
  EXPECT_LT(farther.warm, 1.25 * farther.cold);
}

// Cards of different makers and generations.
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
      cold += mean.cold;
      warm += mean.warm;
    }
  }
  EXPECT_LT(warm, 1.25 * cold);
}

// Suggestions that are no good cost no more than themselves, about.
TEST(WarmStart, BadSuggestionsDoLittleHarm) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)"});
  Recording recording{"synthetic", {}};
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const Positions at = space.positions(index);
    const double x = at[0], y = at[1];
    recording.times.push_back(std::exp(0.04 * (x - 9) * (x - 9) + 0.03 * (x - y) * (x - y)) *
                              (at[2] == 1 ? 1 : 1.7));
  }
  std::vector<std::uint64_t> order = fastest(recording, recording.times.size());
  const std::vector<std::uint64_t> worst(order.rbegin(),
                                         order.rbegin() + static_cast<std::ptrdiff_t>(kSuggestions));
  std::size_t cold = 0, misled = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    cold += trials_to(space, recording, {}, 1.02, seed);
    misled += trials_to(space, recording, worst, 1.02, seed);
  }
  EXPECT_LT(static_cast<double>(misled), static_cast<double>(cold) + 20 * 16.0);
}

}  // namespace
}  // namespace knobwise
