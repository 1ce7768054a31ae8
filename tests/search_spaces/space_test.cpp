// Declarations: T1 files, their mistakes, and constants.
#include "search_spaces/space.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value integer(std::int64_t value) {
  return value;
}
Value text(const char* value) {
  return std::string(value);
}

/// A T1 file with these parameters and conditions.
SearchSpace space_of(const std::string& parameters, const std::string& conditions = "[]") {
  return SearchSpace::parse(
      fmt::format(R"({{"ConfigurationSpace":{{"TuningParameters":{},"Conditions":{}}}}})", parameters,
                  conditions),
      "some.json");
}

std::string message_of(const std::string& json, const Names& constants = {}) {
  try {
    SearchSpace::parse(json, "some.json").bind(constants);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::string message_of(const std::string& parameters, const std::string& conditions,
                       const Names& constants = {}) {
  try {
    space_of(parameters, conditions).bind(constants);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<Value> values_of(const std::string& parameter, const Names& constants = {}) {
  return space_of("[" + parameter + "]").bind(constants).knobs().at(0).values;
}

TEST(SearchSpace, ReadsValuesInAllTheirForms) {
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"int","Values":"[1, 2, 4]"})"),
              ElementsAre(integer(1), integer(2), integer(4)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"int","Values":"[2**i for i in range(3)]"})"),
              ElementsAre(integer(1), integer(2), integer(4)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"uint","Values":[1, 2, "2 + 2"]})"),
              ElementsAre(integer(1), integer(2), integer(4)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"int","Values":16})"), ElementsAre(integer(16)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"bool","Values":[true, 0]})"),
              ElementsAre(Value(true), Value(false)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"float","Values":"[1, 0.5]"})"),
              ElementsAre(Value(1.0), Value(0.5)));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"string","Values":["fp32", "bf16"]})"),
              ElementsAre(text("fp32"), text("bf16")));
  EXPECT_THAT(values_of(R"({"Name":"k","Type":"string","Values":"['fp32', 'bf16']"})"),
              ElementsAre(text("fp32"), text("bf16")));
  EXPECT_THAT(values_of(R"({"Name":"k","Values":["a+b", -1, 0.5]})"),
              ElementsAre(text("a+b"), integer(-1), Value(0.5)));
}

TEST(SearchSpace, EqualValuesCountOnce) {
  EXPECT_THAT(values_of(R"({"Name":"k","Values":"[1, 1.0, True, 2, 2, 'x', 'x', 0.5]"})"),
              ElementsAre(integer(1), integer(2), text("x"), Value(0.5)));
}

TEST(SearchSpace, KeysMayBeWrittenInAnyCase) {
  const SearchSpace space = SearchSpace::parse(
      R"({"general":{"benchmark_name":"mine"},"configuration_space":{"tuning_parameters":[
          {"name":"a","type":"int","values":"[1,2]","default":2}]}})",
      "some.json");
  EXPECT_EQ(space.name(), "mine");
  const BoundSpace bound = space.bind();
  EXPECT_EQ(bound.size(), 2u);
  EXPECT_EQ(bound.configuration(bound.default_index()).integer("a"), 2);
}

TEST(SearchSpace, KeepsTheKernelSpecification) {
  const SearchSpace space = SearchSpace::parse(
      R"({"ConfigurationSpace":{"TuningParameters":[{"Name":"a","Values":[1]}]},
          "KernelSpecification":{"KernelName":"conv","LocalSize":{"X":"a"}}})",
      "some.json");
  EXPECT_EQ(space.name(), "conv");
  EXPECT_EQ(space.kernel_specification().at("LocalSize").at("X"), "a");
  EXPECT_TRUE(space_of(R"([{"Name":"a","Values":[1]}])").kernel_specification().is_null());
}

TEST(SearchSpace, ConstantsShapeValuesAndConstraints) {
  const SearchSpace space = space_of(
      R"([{"Name":"tile","Type":"int","Values":"[2**i for i in range(10) if 2**i <= k]","Default":256},
                                         {"Name":"depth","Type":"int","Values":[1,2,4]}])",
      R"([{"Parameters":["tile"],"Expression":"4 * tile * depth <= shared_memory","Reason":"tiles fit"}])");
  const BoundSpace small = space.bind({{"k", std::int64_t{24}}, {"shared_memory", std::int64_t{64}}});
  EXPECT_EQ(small.knobs()[0].values.size(), 5u);
  EXPECT_EQ(small.size(), 5u + 4u + 3u);
  // The default 256 is beyond this problem: the nearest valid tile takes its place.
  EXPECT_EQ(small.configuration(small.default_index()).integer("tile"), 16);
  const BoundSpace large = space.bind({{"k", std::int64_t{512}}, {"shared_memory", std::int64_t{1} << 20}});
  EXPECT_EQ(large.size(), 30u);
  EXPECT_EQ(large.configuration(large.default_index()).integer("tile"), 256);
}

TEST(SearchSpace, SaysWhichConstraintIsViolatedAndWhy) {
  const BoundSpace space = space_of(R"([{"Name":"a","Values":[1,2]},{"Name":"b","Values":[1,2]}])",
                                    R"([{"Expression":"a * b < limit","Reason":"registers run out"}])")
                               .bind({{"limit", std::int64_t{4}}});
  const auto violation = space.violation(Configuration({{"a", integer(2)}, {"b", integer(2)}}));
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(*violation, "violates `a * b < limit`, registers run out: a=2, b=2, limit=4");
  EXPECT_FALSE(space.violation(Configuration({{"b", integer(1)}, {"a", Value(2.0)}})).has_value());
  EXPECT_EQ(*space.violation(Configuration({{"a", integer(2)}})), "knob `b` is missing");
  EXPECT_EQ(*space.violation(Configuration({{"a", integer(2)}, {"b", integer(7)}})), "knob `b` cannot be 7");
  EXPECT_EQ(*space.violation(Configuration({{"a", integer(2)}, {"b", integer(1)}, {"c", integer(1)}})),
            "there is no knob `c`");
  EXPECT_EQ(*space.violation(Configuration({{"a", integer(2)}, {"b", integer(1)}, {"b", integer(1)}})),
            "knob `b` is given twice");
}

TEST(SearchSpace, MistakesNameFileAndPlace) {
  const std::string ok = R"([{"Name":"a","Values":[1,2]},{"Name":"b","Values":[1,2]}])";
  EXPECT_EQ(message_of(ok, "[]"), "no error");
  EXPECT_THAT(message_of("{\n  \"a\": ]\n}"), HasSubstr("some.json: line 2, column 8"));
  EXPECT_THAT(message_of("{\"a\":"), HasSubstr("ends too early"));
  EXPECT_THAT(message_of("8e448"), HasSubstr("some.json: holds a number that is too large"));
  EXPECT_THAT(message_of(std::string(1'000'000, '[')), HasSubstr("some.json: holds more than 100 lists"));
  EXPECT_THAT(message_of("[1]"), HasSubstr("there is no ConfigurationSpace"));
  EXPECT_THAT(message_of("[]", "[]"), HasSubstr("some.json: the space declares no knobs"));
  EXPECT_THAT(message_of("3", "[]"), HasSubstr("TuningParameters is not a list"));
  EXPECT_THAT(message_of(R"([{"Values":[1]}])", "[]"),
              HasSubstr("TuningParameters, number 1: it has no Name"));
  EXPECT_THAT(message_of(R"([{"Name":"a"}])", "[]"), HasSubstr("some.json: knob `a`: it has no Values"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Values":[]}])", "[]"),
              HasSubstr("knob `a`: the list of values is empty"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Values":"[x for x in []]"}])", "[]"),
              HasSubstr("knob `a`: the list of values is empty"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Values":[[1]]}])", "[]"),
              HasSubstr("knob `a`: Values: expected a number"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Type":"half","Values":[1]}])", "[]"),
              HasSubstr("unknown Type `half`"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Type":"int","Values":[0.5]}])", "[]"),
              HasSubstr("the value 0.5 is not an integer"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Values":[1]},{"Name":"a","Values":[1]}])", "[]"),
              HasSubstr("knob `a` is declared twice"));
  EXPECT_THAT(message_of(R"([{"Name":"if","Values":[1]}])", "[]"), HasSubstr("`if` cannot name a knob"));
  EXPECT_THAT(message_of(R"([{"Name":"2a","Values":[1]}])", "[]"), HasSubstr("`2a` cannot name a knob"));
  EXPECT_THAT(message_of(R"([{"Name":"True","Values":[1]}])", "[]"), HasSubstr("`True` cannot name a knob"));
  EXPECT_THAT(message_of(ok, "[{}]"), HasSubstr("condition 1: it has no Expression"));
  EXPECT_THAT(message_of(ok, R"(["a < b", "a <"])"), HasSubstr("condition 2: expression `a <`, column 4"));
  EXPECT_THAT(message_of(ok, R"(["a < b", "a < kk"])"),
              HasSubstr("some.json: condition 2: expression `a < kk`, column 5: unknown name `kk`"));
  EXPECT_THAT(message_of(ok, R"(["True or kk"])"), HasSubstr("unknown name `kk`"));
  EXPECT_THAT(message_of(ok, "[]", {{"a", std::int64_t{1}}}),
              HasSubstr("knob `a`: a dimension or device limit has the same name"));
  EXPECT_THAT(message_of(ok, R"(["a // (b - 2) < 5"])"), HasSubstr("division by zero with b=2, a=1"));
  EXPECT_THAT(message_of(R"([{"Name":"a","Values":["x"],"Default":"y"}])", "[]"),
              HasSubstr("the default y is not among the values"));
  EXPECT_THROW(SearchSpace::load("/nonexistent/space.json"), UserError);
}

TEST(SearchSpace, MistakesInExpressionsCarryTheirPosition) {
  try {
    space_of(R"([{"Name":"a","Values":"[1, 2"}])");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.text(), "[1, 2");
    EXPECT_EQ(error.offset(), 5u);
  }
}

TEST(SearchSpace, KeepsTheFirstOfEqualValues) {
  EXPECT_THAT(values_of(R"({"Name":"k","Values":"[2, 1, True, 2.0, '1', 0.0, -0.0, '1', 0]"})"),
              ElementsAre(integer(2), integer(1), text("1"), Value(0.0)));
  // 2^53 and 2^53 + 1 are one real and two integers.
  EXPECT_EQ(values_of(R"({"Name":"k","Values":"[9007199254740992, 9007199254740993]"})").size(), 2u);
}

TEST(SearchSpace, ReadsAKnobOfVeryManyValues) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(values_of(R"({"Name":"k","Values":"[i // 2 for i in range(400000)]"})").size(), 200'000u);
  // Comparing each value with all others takes minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(SearchSpace, OneConditionMayGuardAnother) {
  const std::string knobs =
      R"([{"Name":"a","Values":[0,1,2,3]},{"Name":"b","Values":[0,2,3,6]},{"Name":"c","Values":[1,2]}])";
  EXPECT_EQ(space_of(knobs, R"(["a != 0", "b % a == 0"])").bind().size(), 20u);
  EXPECT_EQ(space_of(knobs, R"(["a != 0 and b % a == 0"])").bind().size(), 20u);
  EXPECT_EQ(space_of(knobs, R"(["b + c > 1 and a + c > 1 and a > 0 and b // a < 2"])").bind().size(), 11u);
  // The guard depends on a third knob, so that the split parts are checked before it.
  EXPECT_EQ(space_of(knobs, R"(["a + c >= 2 and a * c > 0 and b % a == 0"])").bind().size(), 20u);
}

TEST(SearchSpace, BuiltInCode) {
  const SearchSpace space(
      "mine",
      {{"tile", KnobDeclaration::Type::integer, {Expression::parse("[1, 2, 4]")}, Expression::parse("4")},
       {"mode",
        KnobDeclaration::Type::text,
        {Expression::literal(text("a")), Expression::literal(text("b"))},
        {}}},
      {{Expression::parse("tile < 4 or mode == 'b'"), "a has no large tiles"}});
  const BoundSpace bound = space.bind();
  EXPECT_EQ(bound.size(), 5u);
  // One step from the default (4, a) either way.
  const Configuration default_configuration = bound.configuration(bound.default_index());
  EXPECT_EQ(default_configuration.integer("tile") == 4, default_configuration.text("mode") == "b");
}

}  // namespace
}  // namespace knobwise
