// What other tuners' T1 files hold beyond the plain case: they load, and mistakes in them are one clear
// error.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Row {
  const char* expression;
  const char* result;  ///< In Python's spelling of lists of numbers; an error message otherwise.
};

std::string evaluated(const std::string& text) {
  try {
    const Names names = {
        {"a", std::int64_t{6}}, {"b", std::int64_t{4}}, {"s", std::string("x")}, {"t", true}};
    const std::vector<Value> values = Expression::parse(text).evaluate_list(names);
    std::string result;
    for (const Value& value : values) result += (result.empty() ? "" : ",") + to_string(value);
    return result;
  } catch (const UserError& error) {
    return std::string("error: ") + error.what();
  }
}

class Foreign : public testing::TestWithParam<Row> {};

TEST_P(Foreign, ExpressionIsReadAsPythonReadsIt) {
  EXPECT_EQ(evaluated(GetParam().expression), GetParam().result) << GetParam().expression;
}

INSTANTIATE_TEST_SUITE_P(
    Values, Foreign,
    testing::Values(
        Row{"[2**i for i in range(4)]", "1,2,4,8"}, Row{"range(1, 9)", "1,2,3,4,5,6,7,8"},
        Row{"list(range(32, 128+1, 32))", "32,64,96,128"}, Row{"[1, 2] + list(range(4, 9, 4))", "1,2,4,8"},
        Row{"[1] + [2*i for i in range(1,4)]", "1,2,4,6"}, Row{"(1, 2, 3)", "1,2,3"}, Row{"1, 2", "1,2"},
        Row{"[i for i in range(2, 20) if 24 % i == 0]", "2,3,4,6,8,12"}, Row{"[4, 2, 1][::-1]", "1,2,4"},
        Row{"[2**i for i in range(5,8)][::-1]", "128,64,32"}, Row{"[1, 2, 3, 4][1:3]", "2,3"},
        Row{"sorted([3, 1, 2])", "1,2,3"}, Row{"[1, 2, 3][:2]", "1,2"}, Row{"[1, 2, 3][-2:]", "2,3"},
        Row{"[1, 2, 3, 4, 5][::2]", "1,3,5"}, Row{"[1, 2, 3][5:]", ""}, Row{"[1, 2, 3][-9:9]", "1,2,3"},
        Row{"range(9)[7:1:-3]", "7,4"}, Row{"[0b11, 0o17]", "3,15"}, Row{"[[1, 2], [3]][0][::-1]", "2,1"},
        Row{"list({1})", "1"}, Row{"['fp32', \"tf32\"]", "fp32,tf32"}, Row{"[True, False]", "true,false"},
        Row{"[16] * 2", "16,16"}, Row{"[.5, 5., 1e-1, 0x10, 1_000]", "0.5,5.0,0.1,16,1000"},
        Row{"[ 1 ,\n 2 ]", "1,2"}, Row{"[x * y for x in [1, 2] for y in [3, 5]]", "3,5,6,10"},
        Row{"[x for x in range(9) if x % 2 if x > 2]", "3,5,7"},
        Row{"[10 * x + y for x in range(4) if x % 2 for y in range(x) if y != 1]", "10,30,32"},
        Row{"[y for x in [1, 2] for y in [7, 8]]", "7,8,7,8"},
        Row{"[z for x in [1, 2] for y in range(x) for z in [x + y]]", "1,2,3"},
        Row{"[x for x in [1, 2] for x in [x, 5]]", "1,5,2,5"}, Row{" [1]\t", "1"}, Row{"[1, 2,]", "1,2"}));

INSTANTIATE_TEST_SUITE_P(
    Conditions, Foreign,
    testing::Values(Row{"32 <= a * b <= 1024", "false"}, Row{"not (a == 6 and b == 5)", "true"},
                    Row{"a % ((b * 3)/2) == 0", "true"}, Row{"a in [1, 6] and b not in (1, 2)", "true"},
                    Row{"a in {1, 6}", "true"}, Row{"s == 'x' or a", "true"}, Row{"'x' in s", "true"},
                    Row{"s in ('x', 'y')", "true"}, Row{"a if b > 3 else b", "6"},
                    Row{"(a > 1) * (b > 1)", "1"}, Row{"(a > 1) & (b > 5)", "false"},
                    Row{"(a > 1) | (b > 5)", "true"}, Row{"a ^ b", "2"}, Row{"~a", "-7"},
                    Row{"a << 2 >> 1", "12"}, Row{"-a // b", "-2"}, Row{"-a % b", "2"}, Row{"a // -b", "-2"},
                    Row{"2 ** -1", "0.5"}, Row{"-2 ** 2", "-4"}, Row{"2 ** 3 ** 2", "512"},
                    Row{"a / 0 if b == 0 else 1", "1"}, Row{"b == 0 or a % b == 2", "true"},
                    Row{"any(a % x == 0 for x in [4, 3])", "true"}, Row{"all([a > 1, b > 1])", "true"},
                    Row{"sum(x for x in range(a))", "15"}, Row{"max(a, b) - min([a, b])", "2"},
                    Row{"math.ceil(a / b)", "2"}, Row{"math.floor(math.log2(a))", "2"},
                    Row{"int(a / b)", "1"}, Row{"math.sqrt(b) == 2", "true"}, Row{"pow(2, b)", "16"},
                    Row{"math.log(8, 2) > 2.9", "true"}, Row{"math.gcd(a, b)", "2"},
                    Row{"len(range(a))", "6"}, Row{"(a, b) in [(6, 4), (1, 2)]", "true"},
                    Row{"(a, b) < (6, 5)", "true"}, Row{"s * 2 == 'xx' != 'y'", "true"},
                    Row{"'a' < s <= 'x'", "true"}, Row{"not a in [1, 2]", "true"},
                    Row{"a is_not b", "error: expression `a is_not b`, column 3: unexpected `is_not`"},
                    Row{"sum(x * y for x in (a, b) for y in range(3) if x != y)", "30"},
                    Row{"any(x == y for x in [a] for y in [b, 6])", "true"}, Row{"float(a)", "6.0"},
                    Row{"a == 6.0 and t == 1", "true"}));

// These are not Python, or not pure; each must be an error, and never a crash or a hang.
class Rejected : public testing::TestWithParam<const char*> {};

TEST_P(Rejected, IsAnErrorThatPointsIntoTheText) {
  const std::string text = GetParam();
  try {
    Expression::parse(text).evaluate_list({{"a", std::int64_t{6}}});
    FAIL() << text;
  } catch (const UserError& error) {
    EXPECT_EQ(error.text(), text);
    EXPECT_LE(error.offset(), text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Expressions, Rejected,
    testing::Values("", " ", "(", "a b", "a +", "a == == 2", "a && 2", "a || 2", "!a", "a = 2", "lambda p: p",
                    "__import__('os')", "open('x')", "a.b", "a()", "[1", "'x", "1.2.3", "0x", "2 ** 10000",
                    "9223372036854775808", "range(10 ** 12)", "[0] * 10 ** 9",
                    "[i for i in range(10 ** 7) for j in range(10 ** 7)]", "'a' * 10 ** 12", "1 / 0", "1 % 0",
                    "unknown", "[1, 2][5]", "[1][::0]", "[1]['a':]", "{}", "{1: 2}", "0xg", "1__0", "1_",
                    "[x for x in [1] for y in 2]", "[x for x, y in [1]]", "[x for in in [1]]",
                    "[x for x in [1] for]", "[sum([i for j in range(10 ** 6)]) for i in range(10 ** 6)]",
                    "[1 for i in range(10 ** 6) for j in range(10 ** 6) if i < 0]",
                    "[j for i in range(10 ** 4) for j in range(10 ** 6)]", "math.pi", "slice([1])",
                    "sorted(3)", "max([])", "max()", "1 < 'x'", "not", "if a else 1", "a if b", "\xff\xfe",
                    "99999999999999999999999999", "1e999", "[[1]]"));

TEST(ForeignSpace, NestedParenthesesAndLongChainsAreReadOrRefused) {
  const std::string deep = std::string(50'000, '(') + "1" + std::string(50'000, ')');
  EXPECT_THROW(Expression::parse(deep), UserError);
  EXPECT_THROW(Expression::parse(std::string(50'000, '-') + "1"), UserError);
  EXPECT_THROW(Expression::parse(std::string(50'000, '[')), UserError);
  std::string chain = "1";
  for (int i = 0; i < 2'000; ++i) chain += " + 1";
  EXPECT_EQ(evaluated(chain), "2001");
  std::string power = "2";
  for (int i = 0; i < 50'000; ++i) power += " ** 1";
  EXPECT_THAT(evaluated(power), testing::AnyOf("2", HasSubstr("error")));
}

json file_of(const json& parameter, const json& conditions = json::array()) {
  return {{"ConfigurationSpace", {{"TuningParameters", {parameter}}, {"Conditions", conditions}}}};
}

BoundSpace bound(const json& file) {
  return SearchSpace::parse(file.dump(), "foreign.T1.json").bind();
}

TEST(ForeignSpace, ADefaultMayBeAListOfOne) {
  const json parameter = {{"Name", "k"}, {"Type", "int"}, {"Values", "[1, 2, 4]"}, {"Default", {4}}};
  const BoundSpace space = bound(file_of(parameter));
  EXPECT_EQ(space.configuration(space.default_index()).integer("k"), 4);
}

TEST(ForeignSpace, ADefaultOutsideTheValuesIsTheNearest) {
  const json parameter = {{"Name", "k"}, {"Type", "int"}, {"Values", "[10]"}, {"Default", 1}};
  EXPECT_EQ(bound(file_of(parameter)).default_index(), 0u);
  const json words = {{"Name", "k"}, {"Type", "string"}, {"Values", "['a', 'b']"}, {"Default", "c"}};
  EXPECT_THROW(bound(file_of(words)), UserError);
}

TEST(ForeignSpace, TextAndBooleansCanBeWrittenInEveryWay) {
  const auto values = [](const json& type, const json& list) {
    return bound(file_of({{"Name", "k"}, {"Type", type}, {"Values", list}})).knobs().at(0).values;
  };
  const std::vector<Value> words = {std::string("float"), std::string("float4")};
  EXPECT_EQ(values("string", "['float', 'float4']"), words);
  EXPECT_EQ(values("string", {"float", "float4"}), words);
  EXPECT_EQ(values(nullptr, {"float", "float4"}), words);
  EXPECT_EQ(values("bool", "[True, False]"), (std::vector<Value>{true, false}));
  EXPECT_EQ(values("bool", {1, 0}), (std::vector<Value>{true, false}));
  EXPECT_EQ(values("bool", {true, false}), (std::vector<Value>{true, false}));
  EXPECT_EQ(values("uint", "range(1, 3)"), (std::vector<Value>{std::int64_t{1}, std::int64_t{2}}));
  EXPECT_EQ(values("float", "[0.5, 1]"), (std::vector<Value>{0.5, 1.0}));
  EXPECT_EQ(values("int", 7), (std::vector<Value>{std::int64_t{7}}));
  EXPECT_EQ(values("int", {1, 1, 2}), (std::vector<Value>{std::int64_t{1}, std::int64_t{2}}));
}

TEST(ForeignSpace, ConditionsMayNameNoParametersOrWrongOnes) {
  const json parameter = {{"Name", "k"}, {"Type", "int"}, {"Values", "range(10)"}};
  EXPECT_EQ(bound(file_of(parameter, {{{"Expression", "k > 4"}}})).size(), 5u);
  EXPECT_EQ(bound(file_of(parameter, {{{"Expression", "k > 4"}, {"Parameters", {"other"}}}})).size(), 5u);
  EXPECT_EQ(bound(file_of(parameter, {"k > 4", {{"Expression", "True"}}})).size(), 5u);
}

TEST(ForeignSpace, HugeProductsAreCountedOrRefused) {
  json parameters = json::array();
  for (int i = 0; i < 15; ++i)
    parameters.push_back({{"Name", fmt::format("k{}", i)}, {"Type", "int"}, {"Values", "range(16)"}});
  json file = {{"ConfigurationSpace", {{"TuningParameters", parameters}}}};
  EXPECT_EQ(bound(file).size(), std::uint64_t{1} << 60);
  parameters.push_back({{"Name", "k15"}, {"Type", "int"}, {"Values", "range(16)"}});
  file["ConfigurationSpace"]["TuningParameters"] = parameters;
  EXPECT_THROW(bound(file), UserError);
}

TEST(ForeignSpace, AKnobOfManyValuesIsBound) {
  EXPECT_EQ(
      bound(file_of({{"Name", "k"}, {"Type", "int"}, {"Values", "range(20000)"}}, {"k % 7 == 0"})).size(),
      2858u);
}

TEST(ForeignSpace, BrokenFilesAreOneClearError) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      SearchSpace::parse(text, "foreign.T1.json").bind();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  for (
      const char* text :
      {"",
       "[]",
       "null",
       "7",
       "\"x\"",
       "{",
       "{}",
       R"({"ConfigurationSpace": 1})",
       R"({"ConfigurationSpace": []})",
       R"({"ConfigurationSpace": {"TuningParameters": {}}})",
       R"({"ConfigurationSpace": {"TuningParameters": [1]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": 5, "Values": "[1]"}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k"}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": {}}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": [[1]]}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": []}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[]"}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[1"}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Type": 3, "Values": "['a']", "Default": {}}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[1]"}], "Conditions": {}}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[1]"}], "Conditions": [5]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[1]"}], "Conditions": [{"Expression": 5}]}})",
       R"({"ConfigurationSpace": {"TuningParameters": [{"Name": "k", "Values": "[1]"}], "Conditions": ["z > 1"]}})"})
    EXPECT_THAT(message(text), HasSubstr("foreign.T1.json")) << text;
}

}  // namespace
}  // namespace knobwise
