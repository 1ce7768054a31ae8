#include "tuner/family_turns.h"

#include <gtest/gtest.h>

namespace knobwise {
namespace {

/// How many of `trials` each family gets; each has its best from its first trial on, 0 never.
std::vector<FamilyTurns> shared(std::size_t trials, const std::vector<double>& bests) {
  std::vector<FamilyTurns> families(bests.size());
  for (std::size_t i = 0; i < trials; ++i) {
    const std::size_t next = next_family(families);
    ++families.at(next).trials;
    families[next].best_us = bests[next];
  }
  return families;
}

TEST(FamilyTurns, EquallyFastFamiliesShareEqually) {
  for (const FamilyTurns& family : shared(300, {20, 20, 20})) EXPECT_EQ(family.trials, 100u);
}

TEST(FamilyTurns, TheFasterFamilyGetsMore) {
  const auto families = shared(200, {30, 20});
  EXPECT_NEAR(static_cast<double>(families[1].trials), 200 * 2.25 / 3.25, 2);
}

TEST(FamilyTurns, AFamilyFarBehindKeepsASixteenth) {
  const auto families = shared(170, {900, 94});
  EXPECT_NEAR(static_cast<double>(families[0].trials), 10, 1);
}

TEST(FamilyTurns, AFamilyThatCatchesUpGetsItsShare) {
  std::vector<FamilyTurns> families = shared(170, {900, 94});
  families[0].best_us = 80;  // one of its few trials
  for (int i = 0; i < 20; ++i) {
    const std::size_t next = next_family(families);
    ++families[next].trials;
    EXPECT_EQ(next, 0u);
  }
}

TEST(FamilyTurns, AFamilyThatOnlyFailsIsGivenUpSlowly) {
  const auto families = shared(200, {0, 50});
  EXPECT_GE(families[0].trials, 10u);
  EXPECT_LE(families[0].trials, 13u);
}

TEST(FamilyTurns, BeforeAnythingIsKnownFamiliesAlternate) {
  std::vector<FamilyTurns> families(2);
  for (int i = 0; i < 8; ++i) {
    const std::size_t next = next_family(families);
    EXPECT_EQ(next, static_cast<std::size_t>(i % 2));
    ++families[next].trials;
  }
}

}  // namespace
}  // namespace knobwise
