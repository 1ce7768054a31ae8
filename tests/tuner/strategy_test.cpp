#include "tuner/strategies/strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

BoundSpace space_of(int a, int b, const std::string& constraint = "True") {
  const std::string json = fmt::format(
      R"json({{"General": {{"BenchmarkName": "test"}}, "ConfigurationSpace": {{
           "TuningParameters": [{{"Name": "a", "Type": "int", "Values": "range(0, {})"}},
                                {{"Name": "b", "Type": "int", "Values": "range(0, {})"}}],
           "Conditions": [{{"Expression": "{}", "Parameters": []}}]}}}})json",
      a, b, constraint);
  return SearchSpace::parse(json, "test").bind();
}

class EveryStrategy : public testing::TestWithParam<std::string> {};

TEST_P(EveryStrategy, ProposesEachConfigurationOnceAndThenEnds) {
  const BoundSpace space = space_of(13, 7, "(a + b) % 3 != 0");
  const auto strategy = make_strategy(GetParam(), space, 5);
  std::set<std::uint64_t> seen;
  while (true) {
    const auto proposals = strategy->ask(4);
    if (proposals.empty()) break;
    ASSERT_LE(proposals.size(), 4u);
    for (std::uint64_t index : proposals) {
      ASSERT_LT(index, space.size());
      EXPECT_TRUE(seen.insert(index).second) << "proposed twice: " << index;
      strategy->tell({index, static_cast<double>(index + 1)});
    }
  }
  EXPECT_EQ(seen.size(), space.size());
}

TEST_P(EveryStrategy, EndsWhenEverythingFails) {
  const BoundSpace space = space_of(5, 5);
  const auto strategy = make_strategy(GetParam(), space, 1);
  std::size_t proposed = 0;
  for (auto proposals = strategy->ask(1); !proposals.empty(); proposals = strategy->ask(1)) {
    strategy->tell({proposals.front()});
    ASSERT_LE(++proposed, space.size());
  }
  EXPECT_EQ(proposed, space.size());
}

TEST_P(EveryStrategy, IsReproducibleForASeed) {
  const BoundSpace space = space_of(40, 30);
  const auto propose = [&](std::uint64_t seed) {
    const auto strategy = make_strategy(GetParam(), space, seed);
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 50; ++i) {
      for (std::uint64_t index : strategy->ask(2)) {
        all.push_back(index);
        strategy->tell({index, static_cast<double>((index * 7919) % 101 + 1)});
      }
    }
    return all;
  };
  EXPECT_EQ(propose(3), propose(3));
}

TEST_P(EveryStrategy, DoesNotProposeWhatItWasToldBefore) {
  const BoundSpace space = space_of(4, 4);
  const auto strategy = make_strategy(GetParam(), space, 9);
  strategy->tell({3, 10.0});
  strategy->tell({15, 11.0});
  std::size_t proposed = 0;
  for (auto proposals = strategy->ask(3); !proposals.empty(); proposals = strategy->ask(3)) {
    for (std::uint64_t index : proposals) {
      EXPECT_NE(index, 3u);
      EXPECT_NE(index, 15u);
      ++proposed;
    }
  }
  EXPECT_EQ(proposed, space.size() - 2);
}

TEST_P(EveryStrategy, SearchesASpaceOfOneConfiguration) {
  const BoundSpace space = space_of(3, 3, "a == 1 and b == 2");
  const auto strategy = make_strategy(GetParam(), space, 0);
  EXPECT_EQ(strategy->ask(10), std::vector<std::uint64_t>{0});
  EXPECT_TRUE(strategy->ask(10).empty());
}

INSTANTIATE_TEST_SUITE_P(All, EveryStrategy, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, explanation] : strategy_names()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST(Strategy, RandomDrawsUniformly) {
  const BoundSpace space = space_of(4, 2);
  std::vector<int> first(space.size());
  for (std::uint64_t seed = 0; seed < 8000; ++seed)
    ++first[make_strategy("random", space, seed)->ask(1).front()];
  // 1000 expected in each; six standard deviations of a binomial are 177.
  for (int count : first) EXPECT_NEAR(count, 1000, 177);
}

TEST(Strategy, AnUnknownNameListsTheKnownOnes) {
  const BoundSpace space = space_of(2, 2);
  try {
    make_strategy("magic", space, 0);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("random"), std::string::npos);
  }
}

}  // namespace
}  // namespace knobwise
