#include "search_spaces/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Value evaluated(const std::string& text, const Names& names = {}) {
  return Expression::parse(text).evaluate(names);
}
Value integer(std::int64_t value) {
  return value;
}

std::string canonical(const std::string& text) {
  return Expression::parse(text).to_string();
}

/// The error that an expression gives, at parsing or evaluation.
UserError error_of(const std::string& text, const Names& names = {}) {
  try {
    Expression::parse(text).evaluate(names);
  } catch (const UserError& error) {
    return error;
  }
  ADD_FAILURE() << text << " gives no error";
  return UserError("");
}

std::string marked(const UserError& error) {
  return error.text().substr(error.offset(), error.length());
}

TEST(Expression, DivisionRoundsDown) {
  EXPECT_EQ(evaluated("7 // 2"), integer(3));
  EXPECT_EQ(evaluated("-7 // 2"), integer(-4));
  EXPECT_EQ(evaluated("7 // -2"), integer(-4));
  EXPECT_EQ(evaluated("-7 // -2"), integer(3));
  EXPECT_EQ(evaluated("-7 % 3"), integer(2));
  EXPECT_EQ(evaluated("7 % -3"), integer(-2));
  EXPECT_EQ(evaluated("-7.5 // 2"), Value(-4.0));
  EXPECT_EQ(evaluated("-7.5 % 2"), Value(0.5));
}

TEST(Expression, SlashIsReal) {
  EXPECT_EQ(evaluated("6 / 3"), Value(2.0));
  EXPECT_EQ(evaluated("1 / 4"), Value(0.25));
}

TEST(Expression, PowersFollowPython) {
  EXPECT_EQ(evaluated("2 ** 10"), integer(1024));
  EXPECT_EQ(evaluated("2 ** -1"), Value(0.5));
  EXPECT_EQ(evaluated("-2 ** 2"), integer(-4));
  EXPECT_EQ(evaluated("2 ** 3 ** 2"), integer(512));
  EXPECT_EQ(evaluated("2 ** -1 ** 2"), Value(0.5));
}

TEST(Expression, BooleansAreNumbers) {
  EXPECT_EQ(evaluated("True == 1"), Value(true));
  EXPECT_EQ(evaluated("True + True"), integer(2));
  EXPECT_EQ(evaluated("1 == 1.0"), Value(true));
  EXPECT_EQ(evaluated("False in [0]"), Value(true));
}

TEST(Expression, AndOrGiveAnOperand) {
  EXPECT_EQ(evaluated("0 or 5"), integer(5));
  EXPECT_EQ(evaluated("3 and 5"), integer(5));
  EXPECT_EQ(evaluated("0 and 1 // 0"), integer(0));
  EXPECT_EQ(evaluated("not 0"), Value(true));
}

TEST(Expression, ComparisonsChain) {
  EXPECT_EQ(evaluated("1 < 2 < 3"), Value(true));
  EXPECT_EQ(evaluated("3 > 2 > 2"), Value(false));
  EXPECT_EQ(evaluated("1 < 3 > 2"), Value(true));
  EXPECT_EQ(evaluated("1 == 1 in [1]"), Value(true));
}

TEST(Expression, IntegersAndRealsCompareExactly) {
  EXPECT_EQ(evaluated("9007199254740993 == 9007199254740992.0"), Value(false));
  EXPECT_EQ(evaluated("9007199254740993 > 9007199254740992.0"), Value(true));
  EXPECT_EQ(evaluated("9223372036854775807 < 1e19"), Value(true));
}

TEST(Expression, MembershipAndText) {
  const Names names = {{"precision", std::string("tf32x3")}};
  EXPECT_TRUE(Expression::parse("precision in ['tf32', 'tf32x3']").holds(names));
  EXPECT_TRUE(Expression::parse("precision not in (\"fp32\",)").holds(names));
  EXPECT_TRUE(Expression::parse("'x3' in precision").holds(names));
  EXPECT_EQ(evaluated("precision + '!'", names), Value(std::string("tf32x3!")));
}

TEST(Expression, Conditional) {
  EXPECT_EQ(evaluated("1 if 2 > 1 else 1 // 0"), integer(1));
  EXPECT_EQ(evaluated("1 if 0 else 2 if 0 else 3"), integer(3));
}

TEST(Expression, Functions) {
  EXPECT_EQ(evaluated("min(3, 1, 2)"), integer(1));
  EXPECT_EQ(evaluated("max([3, 1, 2])"), integer(3));
  EXPECT_EQ(evaluated("max(15)"), integer(15));
  EXPECT_EQ(evaluated("round(2.5)"), integer(2));
  EXPECT_EQ(evaluated("round(3.5)"), integer(4));
  EXPECT_EQ(evaluated("int(-2.7)"), integer(-2));
  EXPECT_EQ(evaluated("math.ceil(7 / 2)"), integer(4));
  EXPECT_EQ(evaluated("floor(-0.5)"), integer(-1));
  EXPECT_EQ(evaluated("math.log2(8)"), Value(3.0));
  EXPECT_EQ(evaluated("len([1, 2]) + sum(x for x in range(4))"), integer(8));
  EXPECT_EQ(evaluated("all(x > 0 for x in [1, 2]) and any([0, 1])"), Value(true));
}

TEST(Expression, ListsOfValues) {
  EXPECT_THAT(Expression::parse("[2**i for i in range(4)]").evaluate_list(),
              ElementsAre(integer(1), integer(2), integer(4), integer(8)));
  EXPECT_THAT(Expression::parse("[i for i in range(1, 10, 2) if i % 3]").evaluate_list(),
              ElementsAre(integer(1), integer(5), integer(7)));
  EXPECT_THAT(Expression::parse("list(range(1, 4)) + [0.5, 'a']").evaluate_list(),
              ElementsAre(integer(1), integer(2), integer(3), Value(0.5), Value(std::string("a"))));
  EXPECT_THAT(Expression::parse("1, 2").evaluate_list(), ElementsAre(integer(1), integer(2)));
  EXPECT_THAT(Expression::parse("8").evaluate_list(), ElementsAre(integer(8)));
  EXPECT_EQ(evaluated("[10, 20, 30][-1]"), integer(30));
}

TEST(Expression, ComprehensionVariableHidesANameInsideOnly) {
  const Names names = {{"x", std::int64_t{3}}};
  EXPECT_THAT(Expression::parse("[x * 10 for x in range(x)]").evaluate_list(names),
              ElementsAre(integer(0), integer(10), integer(20)));
  EXPECT_EQ(evaluated("sum([x for x in [5]]) + x", names), integer(8));
  EXPECT_EQ(evaluated("sum([sum([y * x for y in range(3)]) for x in range(3)])"), integer(9));
}

TEST(Expression, NamesAreTheFreeOnesInOrder) {
  EXPECT_THAT(Expression::parse("b + a * max(b, c) + sum([i for i in range(d) if i in e])").names(),
              ElementsAre("b", "a", "c", "d", "e"));
  EXPECT_THAT(Expression::parse("[x for x in x]").names(), ElementsAre("x"));
  EXPECT_THAT(Expression::parse("[x + y for x in a if c for y in range(x) if y < d]").names(),
              ElementsAre("a", "d", "c"));
}

TEST(Expression, CanonicalTextHasTheFewestParentheses) {
  EXPECT_EQ(canonical("((a)+(b*c))"), "a + b * c");
  EXPECT_EQ(canonical("(a+b)*c"), "(a + b) * c");
  EXPECT_EQ(canonical("a-(b-c)"), "a - (b - c)");
  EXPECT_EQ(canonical("(a-b)-c"), "a - b - c");
  EXPECT_EQ(canonical("(-a)**2"), "(-a) ** 2");
  EXPECT_EQ(canonical("-(a**2)"), "-a ** 2");
  EXPECT_EQ(canonical("not (a and b) or c"), "not (a and b) or c");
  EXPECT_EQ(canonical("(a<b)<c"), "(a < b) < c");
  EXPECT_EQ(canonical("x if(y if z else w)else v"), "x if (y if z else w) else v");
  EXPECT_EQ(canonical("'it\\'s'"), "\"it's\"");
  EXPECT_EQ(canonical("[(x) for x in (a) if b if c or d for y in x]"),
            "[x for x in a if b and (c or d) for y in x]");
}

TEST(Expression, EqualityIsOfSyntax) {
  EXPECT_EQ(Expression::parse("a+b"), Expression::parse(" ( a ) + b"));
  EXPECT_FALSE(Expression::parse("a+b") == Expression::parse("b+a"));
  EXPECT_FALSE(Expression::parse("1") == Expression::parse("1.0"));
}

TEST(Expression, SyntaxErrorsPointAtTheMistake) {
  EXPECT_EQ(marked(error_of("a +* b")), "*");
  EXPECT_EQ(marked(error_of("a = 1")), "=");
  EXPECT_THAT(error_of("a = 1").what(), HasSubstr("comparison is `==`"));
  EXPECT_EQ(error_of("(a + b").offset(), 6u);
  EXPECT_EQ(marked(error_of("1 2")), "2");
  EXPECT_EQ(marked(error_of("3x")), "3x");
  EXPECT_EQ(marked(error_of("'open")), "'open");
  EXPECT_EQ(marked(error_of("99999999999999999999")), "99999999999999999999");
  EXPECT_EQ(marked(error_of("a and lambda")), "lambda");
  for (const char* text : {"", "  ", "(", "[1,", "a if b", "a not b", "a.b", "f(x", "x[1", "1 if", "[x for]",
                           "1..2", "a ? b", "007", "math.pi", "[x for x in y for]"}) {
    EXPECT_THROW(Expression::parse(text), UserError) << text;
  }
}

TEST(Expression, EvaluationErrorsPointAtThePart) {
  const Names names = {{"a", std::int64_t{0}}, {"s", std::string("x")}};
  EXPECT_EQ(marked(error_of("1 + 5 // a", names)), "5 // a");
  EXPECT_EQ(marked(error_of("1 + 5 % a", names)), "5 % a");
  EXPECT_EQ(marked(error_of("1 + missing * 2", names)), "missing");
  EXPECT_EQ(marked(error_of("2 * frob(a)", names)), "frob(a)");
  EXPECT_EQ(marked(error_of("1 < s", names)), "1 < s");
  EXPECT_EQ(marked(error_of("1 + (s - 1)", names)), "s - 1");
  EXPECT_EQ(marked(error_of("[1, 2][a + 2]", names)), "[1, 2][a + 2]");
  EXPECT_EQ(marked(error_of("3 + math.log2(a)", names)), "math.log2(a)");
  EXPECT_THAT(error_of("3 + math.log2(a)", names).what(), HasSubstr("math.log2() takes a positive number"));
}

TEST(Expression, OverflowIsAnErrorNotAWrongNumber) {
  for (const char* text :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "4611686018427387904 * 2", "2 ** 63",
        "1 << 63", "-(-9223372036854775807 - 1)", "int(1e19)", "abs(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) // -1", "10.0 ** 400"}) {
    EXPECT_THROW(evaluated(text), UserError) << text;
  }
  EXPECT_EQ(evaluated("(-9223372036854775807 - 1) % -1"), integer(0));
}

TEST(Expression, HostileTextEndsInAnError) {
  EXPECT_THROW(Expression::parse(std::string(100000, '(')), UserError);
  EXPECT_THROW(Expression::parse(std::string(100000, '-') + "1"), UserError);
  EXPECT_THROW(Expression::parse(std::string(100000, '[')), UserError);
  // Chains are as deep as they are long.
  for (const char* link : {"+a", "-1", " and a", "[0]"}) {
    std::string chain = "a";
    for (int i = 0; i < 100000; ++i) chain += link;
    EXPECT_THROW(Expression::parse(chain), UserError) << link;
  }
  EXPECT_THROW(evaluated("len(range(10 ** 15))"), UserError);
  EXPECT_THROW(evaluated("len('x' * 10 ** 15)"), UserError);
}

}  // namespace
}  // namespace knobwise
