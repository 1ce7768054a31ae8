// Random spaces under random constraints: everything agrees with listing the product.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"
#include "tests/search_spaces/random_expressions.h"

namespace knobwise {
namespace {

class RandomSpace {
 public:
  explicit RandomSpace(std::uint64_t seed) : random_(seed) {
    const std::uint64_t count = 1 + below(5);
    for (std::uint64_t i = 0; i < count; ++i) knobs.push_back(random_knob(i));
    const std::uint64_t constraint_count = below(5);
    for (std::uint64_t i = 0; i < constraint_count; ++i)
      constraints.push_back({Expression::parse(random_constraint()), ""});
  }

  std::vector<KnobDeclaration> knobs;
  std::vector<Constraint> constraints;

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::string pick(const std::vector<std::string>& options) { return options[below(options.size())]; }

  KnobDeclaration random_knob(std::uint64_t number) {
    KnobDeclaration knob;
    const bool is_mode = below(5) == 0;
    knob.name = fmt::format("{}{}", is_mode ? "m" : "k", number);
    (is_mode ? modes_ : numbers_).push_back(knob.name);
    knob.values = {
        Expression::parse(is_mode ? pick({"['fp32', 'tf32', 'bf16']", "['fp32']"})
                                  : pick({"[1, 2, 4, 8]", "[False, True]", "[3]", "range(1, 7)",
                                          "[1, 2.5, 4.0, 6]", "[16, 8, 4]", "[1, 1.0, 2]", "[0, 1]"}))};
    return knob;
  }

  std::string number() { return numbers_.empty() ? "1" : pick(numbers_); }

  std::string random_constraint() {
    const auto n = [this] { return number(); };
    const auto constant = [this] { return pick({"0", "1", "2", "3", "4", "6", "8", "12", "20"}); };
    switch (below(12)) {
      case 0:
        return fmt::format("{} * {} <= {}", n(), n(), constant());
      case 1:
        return fmt::format("{} < {} + {} <= {}", constant(), n(), n(), constant());
      case 2:
        return fmt::format("{} % ({} + 1) == 0", n(), n());
      case 3:
        return fmt::format("{} in [1, 2, {}]", n(), n());
      case 4:
        return fmt::format("{} <= {} <= {}", n(), n(), n());
      case 5:
        return fmt::format("({} > 2 if {} else {} < 3)", n(), n(), n());
      case 6:
        return fmt::format("not {} or {} // 2 != {}", n(), n(), n());
      case 7:
        return fmt::format("min({}, {}) * {} <= 16 and max({}, 2) < {}", n(), n(), n(), n(), constant());
      case 8: {
        const std::string divisor = n();
        return fmt::format("{} != 0 and {} % {} < 2", divisor, n(), divisor);
      }
      case 9:
        if (modes_.empty()) return fmt::format("{} / 2 < {}", n(), constant());
        return fmt::format("{} == 'fp32' or {} > 2", pick(modes_), n());
      case 10:
        if (modes_.empty()) return fmt::format("{} + {} != {}", n(), n(), n());
        return fmt::format("{} in ['tf32', 'bf16'] and {} < 5", pick(modes_), n());
      default:
        return fmt::format("{} * {} * {} * {} < {}", n(), n(), n(), n(), constant());
    }
  }

  std::mt19937_64 random_;
  std::vector<std::string> numbers_;
  std::vector<std::string> modes_;
};

/// The valid positions, by listing the product.
std::set<Positions> listed(const BoundSpace& space, const std::vector<Constraint>& constraints) {
  std::set<Positions> valid;
  Positions positions(space.knobs().size(), 0);
  while (true) {
    Names names;
    for (std::size_t i = 0; i < positions.size(); ++i)
      names[space.knobs()[i].name] = space.knobs()[i].values[positions[i]];
    bool holds = true;
    for (const Constraint& constraint : constraints) holds = holds && constraint.expression.holds(names);
    if (holds) valid.insert(positions);
    std::size_t i = 0;
    while (i < positions.size() && ++positions[i] == space.knobs()[i].values.size()) positions[i++] = 0;
    if (i == positions.size()) return valid;
  }
}

std::uint32_t difference(std::uint32_t a, std::uint32_t b) {
  return a > b ? a - b : b - a;
}

bool are_neighbours(const Positions& a, const Positions& b, Neighbourhood kind,
                    const std::set<Positions>& valid) {
  if (a == b) return false;
  std::size_t differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    differing += a[i] != b[i] ? 1 : 0;
    if (kind == Neighbourhood::strictly_adjacent && difference(a[i], b[i]) > 1) return false;
    if (kind != Neighbourhood::adjacent) continue;
    // No valid configuration has a value strictly between the two.
    for (const Positions& other : valid) {
      if (std::min(a[i], b[i]) < other[i] && other[i] < std::max(a[i], b[i])) return false;
    }
  }
  return kind != Neighbourhood::hamming || differing == 1;
}

class SpaceProperty : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    for (int i = 0; i < 50; ++i) spaces_.emplace_back(static_cast<std::uint64_t>(GetParam() * 50 + i));
  }

  std::vector<RandomSpace> spaces_;
};

std::string description(const RandomSpace& random) {
  std::string text;
  for (const KnobDeclaration& knob : random.knobs) text += knob.name + "=" + knob.values[0].text() + " ";
  for (const Constraint& constraint : random.constraints) text += "\n" + constraint.expression.text();
  return text;
}

TEST_P(SpaceProperty, HoldsExactlyTheConfigurationsThatListingFinds) {
  for (const RandomSpace& random : spaces_) {
    SCOPED_TRACE(description(random));
    const SearchSpace declared("random", random.knobs, random.constraints);
    const BoundSpace space = declared.bind();
    const std::set<Positions> valid = listed(space, random.constraints);
    ASSERT_EQ(space.size(), valid.size());
    std::set<Positions> found;
    for (std::uint64_t index = 0; index < space.size(); ++index) {
      const Positions positions = space.positions(index);
      found.insert(positions);
      EXPECT_EQ(space.index_of(positions), index);
      EXPECT_EQ(space.index_of(space.configuration(index)), index);
      EXPECT_EQ(space.violation(space.configuration(index)), std::nullopt);
    }
    EXPECT_EQ(found, valid);
    // Everything else is refused, with a reason.
    const BoundSpace all = SearchSpace("all", random.knobs, {}).bind();
    for (std::uint64_t index = 0; index < all.size(); ++index) {
      const Positions positions = all.positions(index);
      EXPECT_EQ(space.index_of(positions).has_value(), valid.contains(positions));
      EXPECT_EQ(space.violation(all.configuration(index)).has_value(), !valid.contains(positions));
      EXPECT_EQ(declared.violation(all.configuration(index)), space.violation(all.configuration(index)));
    }
    const Configuration defaults = all.configuration(all.default_index());
    const auto valid_default = declared.valid_default();
    EXPECT_EQ(valid_default.has_value(), !space.violation(defaults).has_value());
    if (valid_default) {
      EXPECT_EQ(valid_default->to_json(), defaults.to_json());
      EXPECT_EQ(space.configuration(space.default_index()).to_json(), defaults.to_json());
    }
  }
}

TEST_P(SpaceProperty, NeighboursAreThoseOfTheDefinition) {
  for (const RandomSpace& random : spaces_) {
    SCOPED_TRACE(description(random));
    const BoundSpace space = SearchSpace("random", random.knobs, random.constraints).bind();
    const std::set<Positions> valid = listed(space, random.constraints);
    for (std::uint64_t index = 0; index < space.size(); index += 1 + space.size() / 7) {
      const Positions own = space.positions(index);
      for (const auto kind :
           {Neighbourhood::hamming, Neighbourhood::adjacent, Neighbourhood::strictly_adjacent}) {
        std::set<Positions> expected;
        for (const Positions& other : valid) {
          if (are_neighbours(own, other, kind, valid)) expected.insert(other);
        }
        const std::vector<std::uint64_t> neighbours = space.neighbours(index, kind);
        EXPECT_TRUE(std::is_sorted(neighbours.begin(), neighbours.end()));
        std::set<Positions> found;
        for (const std::uint64_t neighbour : neighbours) found.insert(space.positions(neighbour));
        EXPECT_EQ(found, expected);
        EXPECT_EQ(neighbours.size(), expected.size());
      }
    }
  }
}

TEST_P(SpaceProperty, NearestIsNearest) {
  std::mt19937_64 source(static_cast<std::uint64_t>(GetParam()));
  for (const RandomSpace& random : spaces_) {
    SCOPED_TRACE(description(random));
    const BoundSpace space = SearchSpace("random", random.knobs, random.constraints).bind();
    if (space.empty()) continue;
    const std::set<Positions> valid = listed(space, random.constraints);
    Positions wanted;
    for (const Knob& knob : space.knobs())
      wanted.push_back(static_cast<std::uint32_t>(source() % knob.values.size()));
    const auto distance = [&](const Positions& positions) {
      std::uint32_t total = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) total += difference(positions[i], wanted[i]);
      return total;
    };
    std::uint32_t least = UINT32_MAX;
    for (const Positions& positions : valid) least = std::min(least, distance(positions));
    EXPECT_EQ(distance(space.positions(space.nearest(wanted))), least);
  }
}

// Constraints of any form, among them such as cannot be evaluated for some configurations.
enum class Verdict { valid, invalid, error };

Verdict verdict(const std::vector<Constraint>& constraints, const Names& names) {
  Verdict result = Verdict::valid;
  for (const Constraint& constraint : constraints) {
    try {
      if (!constraint.expression.holds(names)) return Verdict::invalid;
    } catch (const UserError&) {
      result = Verdict::error;
    }
  }
  return result;
}

bool any_fails(const std::vector<Constraint>& constraints, const Names& names) {
  return std::any_of(constraints.begin(), constraints.end(), [&](const Constraint& constraint) {
    return verdict({constraint}, names) == Verdict::error;
  });
}

TEST_P(SpaceProperty, ConstraintsOfAnyFormAreSolvedOrRefused) {
  const std::vector<std::pair<std::string, std::string>> declarations = {{"a", "[0, 1, 6]"},
                                                                         {"b", "[-4, 2, 3]"},
                                                                         {"r", "[1.5, 0.5]"},
                                                                         {"flag", "[False, True]"},
                                                                         {"s", "['tf32', 'fp32']"}};
  std::vector<KnobDeclaration> knobs;
  for (const auto& [name, values] : declarations) {
    knobs.push_back({name, KnobDeclaration::Type::any, {Expression::parse(values)}, {}});
  }
  const Names constants = {{"i", std::int64_t{9}}};
  const BoundSpace all = SearchSpace("all", knobs, {}).bind();
  RandomExpressions generator(static_cast<std::uint64_t>(100 + GetParam()));
  int solved = 0;
  int refused = 0;
  for (int round = 0; round < 150; ++round) {
    std::vector<Constraint> constraints;
    std::string texts;
    while (constraints.size() < static_cast<std::size_t>(1 + round % 3)) {
      try {
        constraints.push_back({Expression::parse(generator.truth(1 + round % 4)), ""});
        texts += constraints.back().expression.text() + "\n";
      } catch (const UserError&) {
        continue;  // a parenthesis too few
      }
    }
    SCOPED_TRACE(texts);
    std::set<Positions> valid;
    bool may_refuse = false;
    for (std::uint64_t index = 0; index < all.size(); ++index) {
      Names names = constants;
      const Configuration configuration = all.configuration(index);
      for (const auto& [name, value] : configuration.knobs()) names[name] = value;
      const Verdict answer = verdict(constraints, names);
      if (answer == Verdict::valid) valid.insert(all.positions(index));
      may_refuse = may_refuse || any_fails(constraints, names);
    }
    try {
      const BoundSpace space = SearchSpace("random", knobs, constraints).bind(constants);
      std::set<Positions> found;
      for (std::uint64_t index = 0; index < space.size(); ++index) found.insert(space.positions(index));
      EXPECT_EQ(found, valid);
      EXPECT_EQ(space.size(), valid.size());
      ++solved;
    } catch (const UserError& error) {
      EXPECT_TRUE(may_refuse) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(solved, 60);
  EXPECT_GT(refused, 5);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SpaceProperty, testing::Range(0, 8));

}  // namespace
}  // namespace knobwise
