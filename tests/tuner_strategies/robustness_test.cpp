// Every strategy on spaces and results that broke others: it must end, within budget, without repeating
// itself, and in the same way for the same seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "tests/tuner_strategies/spaces.h"
#include "tuner/strategies/strategy.h"

namespace knobwise {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();

using Time = std::function<double(std::uint64_t)>;

std::vector<std::uint64_t> search(const std::string& strategy_name, const BoundSpace& space, const Time& time,
                                  std::size_t budget, std::size_t batch = 1, std::uint64_t seed = 1) {
  const auto strategy = make_strategy(strategy_name, space, seed);
  std::vector<std::uint64_t> all;
  while (all.size() < budget) {
    const auto proposals = strategy->ask(std::min(batch, budget - all.size()));
    if (proposals.empty()) break;
    EXPECT_LE(proposals.size(), batch);
    all.insert(all.end(), proposals.begin(), proposals.end());
    for (std::uint64_t index : proposals) strategy->tell({index, time(index)});
  }
  return all;
}

void expect_unique_and_valid(const std::vector<std::uint64_t>& proposals, const BoundSpace& space) {
  const std::set<std::uint64_t> unique(proposals.begin(), proposals.end());
  EXPECT_EQ(unique.size(), proposals.size());
  for (std::uint64_t index : proposals) EXPECT_LT(index, space.size());
}

double scattered(std::uint64_t index) {
  return static_cast<double>(index * 7919 % 101 + 1);
}

class Robustness : public testing::TestWithParam<std::string> {};

TEST_P(Robustness, SearchesASpaceOfOneConfiguration) {
  const BoundSpace space = test::make_space({"[5]", "['a']"});
  EXPECT_EQ(search(GetParam(), space, scattered, 10), std::vector<std::uint64_t>{0});
}

TEST_P(Robustness, HasNothingToProposeWhenConstraintsExcludeEverything) {
  const BoundSpace space = test::make_space({"range(5)", "[False, True]"}, "k0 > 9");
  ASSERT_TRUE(space.empty());
  EXPECT_TRUE(search(GetParam(), space, scattered, 10).empty());
}

TEST_P(Robustness, SearchesATwoValuedKnob) {
  const BoundSpace space = test::make_space({"[False, True]"});
  EXPECT_THAT(search(GetParam(), space, scattered, 10), testing::UnorderedElementsAre(0, 1));
}

TEST_P(Robustness, TakesABudgetOfOne) {
  const BoundSpace space = test::make_space({"range(30)", "range(30)"});
  EXPECT_EQ(search(GetParam(), space, scattered, 1).size(), 1u);
}

TEST_P(Robustness, FindsEveryConfigurationWhenTheBudgetIsLarger) {
  const BoundSpace space =
      test::make_space({"range(9)", "[0.5, 2]", "['a', 'b', 'c']"}, "k0 % 2 == 0 or k1 < 1");
  const auto proposals = search(GetParam(), space, scattered, 1000);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), space.size());
}

TEST_P(Robustness, GoesOnWhenMostTrialsFail) {
  const BoundSpace space = test::make_space({"range(20)", "range(20)", "range(5)"});
  const auto proposals = search(
      GetParam(), space, [](std::uint64_t i) { return i % 100 == 7 ? scattered(i) : kFailed; }, 150);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 150u);
}

TEST_P(Robustness, EndsWhenEverythingFails) {
  const BoundSpace space = test::make_space({"range(8)", "range(7)"});
  const auto proposals = search(
      GetParam(), space, [](std::uint64_t) { return kFailed; }, 1000);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), space.size());
}

TEST_P(Robustness, EndsWhenAllTimesAreEqual) {
  const BoundSpace space = test::make_space({"range(12)", "range(10)"});
  const auto proposals = search(
      GetParam(), space, [](std::uint64_t) { return 4.0; }, 1000);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), space.size());
}

TEST_P(Robustness, TakesTimesOfAnySize) {
  const BoundSpace space = test::make_space({"range(12)", "range(10)"});
  const auto time = [](std::uint64_t i) { return std::pow(10.0, static_cast<double>(i % 600) - 300); };
  const auto proposals = search(GetParam(), space, time, 60);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 60u);
}

TEST_P(Robustness, TakesWhatIsNoTimeAsAFailure) {
  const BoundSpace space = test::make_space({"range(12)", "range(10)"});
  const auto time = [](std::uint64_t i) {
    constexpr double kBad[] = {std::numeric_limits<double>::quiet_NaN(), 0, -1, kFailed, -kFailed};
    return i % 2 ? kBad[i / 2 % 5] : scattered(i);
  };
  const auto proposals = search(GetParam(), space, time, 1000);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), space.size());
}

TEST_P(Robustness, SearchesAKnobOfVeryManyValues) {
  const BoundSpace space =
      test::make_space({"range(1, 20001)", "['a', 'b']", "[0.5]"}, "k0 % 3 == 0 or k1 == 'a'");
  const auto proposals = search(GetParam(), space, scattered, 60);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 60u);
}

TEST_P(Robustness, SearchesMoreKnobsThanTrials) {
  const BoundSpace space = test::make_space(std::vector<std::string>(60, "[False, True]"));
  const auto proposals = search(GetParam(), space, scattered, 40);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 40u);
}

TEST_P(Robustness, SearchesConfigurationsThatHaveNoNeighbours) {
  const BoundSpace space = test::make_space({"range(40)", "range(40)", "range(40)"}, "k0 == k1 == k2");
  ASSERT_EQ(space.size(), 40u);
  const auto proposals = search(GetParam(), space, scattered, 100);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 40u);
}

TEST_P(Robustness, AnswersBatchesBeforeAnythingIsTold) {
  const BoundSpace space = test::make_space({"range(15)", "range(15)"});
  const auto strategy = make_strategy(GetParam(), space, 3);
  std::set<std::uint64_t> seen;
  for (int batch = 0; batch < 5; ++batch) {
    const auto proposals = strategy->ask(16);
    EXPECT_EQ(proposals.size(), 16u);
    for (std::uint64_t index : proposals) EXPECT_TRUE(seen.insert(index).second);
  }
  for (std::uint64_t index : seen) strategy->tell({index, scattered(index)});
  for (std::uint64_t index : strategy->ask(40)) EXPECT_TRUE(seen.insert(index).second);
}

TEST_P(Robustness, IsReproducibleInBatchesForASeed) {
  const BoundSpace space = test::make_space({"range(15)", "[1, 2, 4, 8]", "['x', 'y']"});
  EXPECT_EQ(search(GetParam(), space, scattered, 80, 7), search(GetParam(), space, scattered, 80, 7));
  if (GetParam() == "exhaustive") return;
  EXPECT_NE(search(GetParam(), space, scattered, 80, 7, 1), search(GetParam(), space, scattered, 80, 7, 2));
}

TEST_P(Robustness, DoesNotProposeWhatWasToldFromElsewhere) {
  const BoundSpace space = test::make_space({"range(10)", "range(5)"});
  const auto strategy = make_strategy(GetParam(), space, 0);
  for (std::uint64_t index = 0; index < 30; ++index) strategy->tell({index, scattered(index)});
  std::set<std::uint64_t> rest;
  for (auto proposals = strategy->ask(1); !proposals.empty(); proposals = strategy->ask(1)) {
    EXPECT_GE(proposals.front(), 30u);
    EXPECT_TRUE(rest.insert(proposals.front()).second);
    strategy->tell({proposals.front(), scattered(proposals.front())});
  }
  EXPECT_EQ(rest.size(), 20u);
}

TEST_P(Robustness, SearchesABillionConfigurations) {
  const BoundSpace space = test::make_space(std::vector<std::string>(9, "range(10)"));
  ASSERT_EQ(space.size(), 1'000'000'000u);
  const auto proposals = search(GetParam(), space, scattered, 60);
  expect_unique_and_valid(proposals, space);
  EXPECT_EQ(proposals.size(), 60u);
}

INSTANTIATE_TEST_SUITE_P(Strategies, Robustness, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, explanation] : strategy_names()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace knobwise
