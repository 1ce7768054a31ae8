// Valid configurations: numbering, sampling, neighbours, and spaces at the edges of what is possible.
#include "search_spaces/bound_space.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

KnobDeclaration knob(const std::string& name, const std::string& values,
                     const std::string& default_value = "") {
  KnobDeclaration declaration;
  declaration.name = name;
  declaration.values = {Expression::parse(values)};
  if (!default_value.empty()) declaration.default_value = Expression::parse(default_value);
  return declaration;
}

BoundSpace space_of(const std::vector<KnobDeclaration>& knobs,
                    const std::vector<std::string>& conditions = {}) {
  std::vector<Constraint> constraints;
  for (const std::string& condition : conditions) constraints.push_back({Expression::parse(condition), ""});
  return SearchSpace("test", knobs, constraints).bind();
}

std::vector<std::string> json(const BoundSpace& space, const std::vector<std::uint64_t>& indices) {
  std::vector<std::string> result;
  for (const std::uint64_t index : indices) result.push_back(space.configuration(index).to_json());
  std::sort(result.begin(), result.end());
  return result;
}

TEST(BoundSpace, OneConfiguration) {
  const BoundSpace space = space_of({knob("a", "[3]"), knob("b", "['x']")});
  std::mt19937_64 random(1);
  EXPECT_EQ(space.size(), 1u);
  EXPECT_EQ(space.configuration(0).to_json(), R"({"a":3,"b":"x"})");
  EXPECT_EQ(space.default_index(), 0u);
  EXPECT_EQ(space.sample(random), 0u);
  EXPECT_THAT(space.sample(10, random), ElementsAre(0));
  for (const auto kind :
       {Neighbourhood::hamming, Neighbourhood::adjacent, Neighbourhood::strictly_adjacent}) {
    EXPECT_THAT(space.neighbours(0, kind), IsEmpty());
  }
  EXPECT_THROW(space.configuration(1), std::out_of_range);
}

TEST(BoundSpace, OneTwoValuedKnob) {
  const BoundSpace space = space_of({knob("a", "[False, True]")});
  EXPECT_EQ(space.size(), 2u);
  for (const auto kind :
       {Neighbourhood::hamming, Neighbourhood::adjacent, Neighbourhood::strictly_adjacent}) {
    EXPECT_THAT(space.neighbours(0, kind), ElementsAre(1));
    EXPECT_THAT(space.neighbours(1, kind), ElementsAre(0));
  }
}

TEST(BoundSpace, NothingValid) {
  for (const std::string condition : {"a > 5", "a + b > 100", "False", "a * b == 7"}) {
    const BoundSpace space = space_of({knob("a", "[1, 2]"), knob("b", "[1, 2]")}, {condition});
    std::mt19937_64 random(1);
    EXPECT_TRUE(space.empty());
    EXPECT_FALSE(space.index_of(Positions{0, 0}).has_value());
    EXPECT_FALSE(space.contains(space.configuration(Positions{0, 0})));
    EXPECT_THAT(*space.violation(space.configuration(Positions{0, 0})), HasSubstr(condition));
    EXPECT_THAT(space.sample(3, random), IsEmpty());
    EXPECT_THROW(space.sample(random), UserError);
    EXPECT_THROW(space.default_index(), UserError);
    EXPECT_THROW(space.nearest({0, 0}), UserError);
    EXPECT_THROW(space.configuration(0), std::out_of_range);
  }
}

TEST(BoundSpace, NothingValidNamesTheConstraintThatExcludesTheLast) {
  const BoundSpace space = SearchSpace("tiny", {knob("a", "[1, 2]"), knob("b", "[1, 2]")},
                                       {{Expression::parse("a > 1"), ""},
                                        {Expression::parse("a * b >= 16"), "fill a warp"},
                                        {Expression::parse("b > 0"), ""}})
                               .bind();
  try {
    space.default_index();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "space `tiny` has no valid configuration for this problem and device: condition 2 `a * b >= "
                 "16`, fill a "
                 "warp excludes all that the conditions before it leave");
  }
}

TEST(BoundSpace, NothingValidIsExplainedEvenIfTheFirstConstraintsLeaveTooMany) {
  std::vector<KnobDeclaration> knobs;
  for (int i = 0; i < 16; ++i) knobs.push_back(knob(fmt::format("k{}", i), "range(16)"));
  const BoundSpace space = space_of(knobs, {"k0 >= 0", "k1 + k2 > 100"});
  EXPECT_TRUE(space.empty());
  EXPECT_THROW(space.default_index(), UserError);
}

TEST(BoundSpace, ForeignConfigurationsAreNotContained) {
  const BoundSpace space = space_of({knob("a", "[1, 2]"), knob("b", "['x']")});
  const auto contains = [&](const char* text) { return space.contains(Configuration::from_json(text)); };
  EXPECT_TRUE(contains(R"({"a":1,"b":"x"})"));
  EXPECT_TRUE(contains(R"({"b":"x","a":2.0})"));
  EXPECT_TRUE(contains(R"({"b":"x","a":true})"));
  EXPECT_FALSE(contains(R"({"a":1})"));
  EXPECT_FALSE(contains(R"({"a":"1","b":"x"})"));
  EXPECT_FALSE(contains(R"({"a":1,"b":"x","c":1})"));
  EXPECT_FALSE(contains(R"({"a":3,"b":"x"})"));
  EXPECT_FALSE(space.index_of(Positions{5, 0}).has_value());
  EXPECT_FALSE(space.index_of(Positions{0}).has_value());
}

// 12 independent groups: far more configurations than memory holds.
BoundSpace huge_space() {
  std::vector<KnobDeclaration> knobs;
  std::vector<std::string> conditions;
  for (int i = 0; i < 12; ++i) {
    knobs.push_back(knob(fmt::format("a{}", i), "range(8)"));
    knobs.push_back(knob(fmt::format("b{}", i), "range(8)"));
    conditions.push_back(fmt::format("a{0} <= b{0}", i));
  }
  return space_of(knobs, conditions);
}

TEST(BoundSpace, ProductsAreCountedIndexedAndSampledWithoutListing) {
  const BoundSpace space = huge_space();
  std::uint64_t expected = 1;
  for (int i = 0; i < 12; ++i) expected *= 36;
  EXPECT_EQ(space.size(), expected);
  std::mt19937_64 random(3);
  for (const std::uint64_t index : space.sample(200, random)) {
    const Configuration configuration = space.configuration(index);
    EXPECT_EQ(space.index_of(configuration), index);
    EXPECT_FALSE(space.violation(configuration).has_value());
    EXPECT_EQ(space.neighbours(index, Neighbourhood::hamming).size(), [&] {
      std::size_t count = 0;
      for (int i = 0; i < 12; ++i) {
        const auto a = configuration.integer(fmt::format("a{}", i));
        const auto b = configuration.integer(fmt::format("b{}", i));
        count += static_cast<std::size_t>(b + (7 - a));
      }
      return count;
    }());
  }
  EXPECT_EQ(space.index_of(space.configuration(space.size() - 1)), space.size() - 1);
}

TEST(BoundSpace, NearestInAHugeSpaceChangesOnlyWhatIsInvalid) {
  const BoundSpace space = huge_space();
  Positions wanted(24, 3);
  wanted[0] = 7;
  wanted[1] = 0;
  const Positions nearest = space.positions(space.nearest(wanted));
  EXPECT_LE(nearest[0], nearest[1]);
  EXPECT_EQ((7 - nearest[0]) + nearest[1], 7u);
  EXPECT_TRUE(std::equal(wanted.begin() + 2, wanted.end(), nearest.begin() + 2));
}

TEST(BoundSpace, MoreThan64BitsOfConfigurationsIsAClearError) {
  std::vector<KnobDeclaration> knobs;
  for (int i = 0; i < 16; ++i) knobs.push_back(knob(fmt::format("k{}", i), "range(16)"));
  try {
    space_of(knobs);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("more than 2^64-1 valid configurations"));
  }
  knobs[0] = knob("k0", "range(15)");
  EXPECT_EQ(space_of(knobs).size(), (std::uint64_t{1} << 60) * 15);
}

TEST(BoundSpace, LongListsOfValues) {
  const BoundSpace space =
      space_of({knob("a", "range(1000)"), knob("b", "range(300)")}, {"a % 100 == b", "b >= 65"});
  EXPECT_EQ(space.size(), 350u);
  EXPECT_EQ(space.configuration(space.nearest({999, 299})).to_json(), R"({"a":999,"b":99})");
}

TEST(BoundSpace, NeighboursFollowTheirDefinitions) {
  // 2 is in the list and in no valid configuration.
  const BoundSpace space = space_of({knob("a", "[1, 2, 3, 4]"), knob("b", "[0, 1]")}, {"a != 2"});
  const std::uint64_t from = *space.index_of(Positions{2, 0});
  EXPECT_THAT(json(space, space.neighbours(from, Neighbourhood::hamming)),
              ElementsAre(R"({"a":1,"b":0})", R"({"a":3,"b":1})", R"({"a":4,"b":0})"));
  EXPECT_THAT(json(space, space.neighbours(from, Neighbourhood::strictly_adjacent)),
              ElementsAre(R"({"a":3,"b":1})", R"({"a":4,"b":0})", R"({"a":4,"b":1})"));
  EXPECT_THAT(json(space, space.neighbours(from, Neighbourhood::adjacent)),
              ElementsAre(R"({"a":1,"b":0})", R"({"a":1,"b":1})", R"({"a":3,"b":1})", R"({"a":4,"b":0})",
                          R"({"a":4,"b":1})"));
}

TEST(BoundSpace, DefaultMovesToTheNearestValidConfiguration) {
  const std::vector<KnobDeclaration> knobs = {knob("a", "[1, 2, 4, 8, 16]", "16"),
                                              knob("b", "[1, 2, 4, 8]", "4")};
  const auto default_of = [&](const std::vector<std::string>& conditions) {
    const BoundSpace space = space_of(knobs, conditions);
    return space.configuration(space.default_index()).to_json();
  };
  EXPECT_EQ(default_of({}), R"({"a":16,"b":4})");
  EXPECT_EQ(default_of({"a * b <= 64"}), R"({"a":16,"b":4})");
  EXPECT_EQ(default_of({"a < 16"}), R"({"a":8,"b":4})");
  EXPECT_EQ(default_of({"a == 2 * b", "b <= 4"}), R"({"a":8,"b":4})");
}

TEST(BoundSpace, SamplingIsUniformSeededAndWithoutRepetition) {
  const BoundSpace space = space_of({knob("a", "range(5)"), knob("b", "range(5)")}, {"a <= b"});
  ASSERT_EQ(space.size(), 15u);
  std::mt19937_64 random(7);
  std::vector<int> counts(15);
  for (int i = 0; i < 15000; ++i) ++counts[space.sample(random)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 36.1);  // the 0.999 quantile at 14 degrees of freedom

  std::vector<int> first(15);
  for (int i = 0; i < 3000; ++i) {
    const auto sample = space.sample(5, random);
    EXPECT_EQ(std::set<std::uint64_t>(sample.begin(), sample.end()).size(), 5u);
    ++first[sample[0]];
  }
  for (const int count : first) EXPECT_NEAR(count, 200, 60);
  EXPECT_EQ(space.sample(100, random).size(), 15u);

  std::mt19937_64 one(9);
  std::mt19937_64 other(9);
  EXPECT_EQ(space.sample(7, one), space.sample(7, other));
}

TEST(BoundSpace, NumberingIsTheSameInEveryBinding) {
  const BoundSpace one = huge_space();
  const BoundSpace other = huge_space();
  std::mt19937_64 random(5);
  for (const std::uint64_t index : one.sample(50, random))
    EXPECT_EQ(one.configuration(index), other.configuration(index));
}

}  // namespace
}  // namespace knobwise
