// Random expressions: the printer inverts the parser, and python3 agrees with the evaluator.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <optional>

#include "search_spaces/expression.h"
#include "search_spaces/user_error.h"
#include "tests/search_spaces/random_expressions.h"

namespace knobwise {
namespace {

const Names& names() {
  static const Names kNames = {{"a", std::int64_t{6}}, {"b", std::int64_t{-4}},    {"r", 1.5},
                               {"flag", true},         {"s", std::string("tf32")}, {"i", std::int64_t{9}}};
  return kNames;
}

TEST(ExpressionProperty, PrinterInvertsParser) {
  RandomExpressions generator(1);
  int parsed = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string text = generator.any(static_cast<int>(i % 5));
    std::optional<Expression> expression;
    try {
      expression = Expression::parse(text);
    } catch (const UserError&) {
      continue;  // a parenthesis too few, as in `1 + not 2`
    }
    ++parsed;
    const std::string printed = expression->to_string();
    EXPECT_EQ(Expression::parse(printed), *expression) << text << "\n" << printed;
    EXPECT_EQ(Expression::parse(printed).to_string(), printed);
  }
  EXPECT_GT(parsed, 4000);
}

std::string tagged(const Value& value) {
  static const char* const kTags[] = {"b", "i", "r", "s"};
  return kTags[value.index()] + to_string(value) + ";";
}

std::string our_answer(const std::string& text) {
  try {
    std::string answer;
    for (const Value& value : Expression::parse(text).evaluate_list(names())) answer += tagged(value);
    return answer;
  } catch (const UserError& error) {
    return std::string(error.what()).find("64 bits") != std::string::npos ? "overflow" : "error";
  }
}

// Prints what our_answer() gives. Reals are printed by repr, whose form differs: they are compared as
// numbers.
constexpr const char* kScript = R"(
import sys
names = dict(a=6, b=-4, r=1.5, flag=True, s='tf32', i=9)
def tag(v):
    if isinstance(v, bool): return 'b' + ('true' if v else 'false') + ';'
    if isinstance(v, int): return 'i%d;' % v if -2**63 <= v < 2**63 else 'overflow'
    if isinstance(v, float): return 'r%r;' % v
    if isinstance(v, str): return 's' + v + ';'
    raise TypeError
for line in open(sys.argv[1]):
    try:
        v = eval(line, dict(names))
        print(''.join(map(tag, v)) if isinstance(v, list) else tag(v))
    except Exception:
        print('error')
)";

bool same_answer(const std::string& ours, const std::string& theirs) {
  if (ours == theirs) return true;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < ours.size() && j < theirs.size()) {
    const std::string left = ours.substr(i, ours.find(';', i) - i);
    const std::string right = theirs.substr(j, theirs.find(';', j) - j);
    const bool both_real = left[0] == 'r' && right[0] == 'r';
    if (both_real ? std::stod(left.substr(1)) != std::stod(right.substr(1)) : left != right) return false;
    i += left.size() + 1;
    j += right.size() + 1;
  }
  return i >= ours.size() && j >= theirs.size();
}

TEST(ExpressionProperty, PythonAgrees) {
  if (std::system("python3 -c '' > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no python3";
  const std::string script = testing::TempDir() + "knobwise_expressions.py";
  const std::string input = testing::TempDir() + "knobwise_expressions.txt";
  const std::string output = testing::TempDir() + "knobwise_expressions.out";
  std::vector<std::string> texts;
  RandomExpressions generator(2);
  for (int i = 0; i < 6000; ++i) texts.push_back(generator.any(static_cast<int>(i % 5)));
  std::ofstream(script) << kScript;
  {
    std::ofstream file(input);
    for (const std::string& text : texts) file << text << "\n";
  }
  ASSERT_EQ(std::system(fmt::format("python3 -W ignore '{}' '{}' > '{}'", script, input, output).c_str()), 0);

  std::ifstream answers(output);
  int values = 0;
  int overflows = 0;
  for (const std::string& text : texts) {
    std::string theirs;
    ASSERT_TRUE(std::getline(answers, theirs));
    const std::string ours = our_answer(text);
    if (ours == "overflow") {
      ++overflows;  // Python's integers have no end
      continue;
    }
    EXPECT_TRUE(same_answer(ours, theirs)) << text << "\n  here   " << ours << "\n  python " << theirs;
    values += ours != "error" ? 1 : 0;
  }
  EXPECT_GT(values, 3000);
  EXPECT_LT(overflows, 60);
}

}  // namespace
}  // namespace knobwise
