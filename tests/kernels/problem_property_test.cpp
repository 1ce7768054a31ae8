// Parser and printer are inverses; no line, however broken, does anything but parse or throw UserError.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/problem.h"
#include "search_spaces/user_error.h"
#include "tests/kernels/random_problems.h"

namespace knobwise {
namespace {

TEST(ProblemProperty, ParseInvertsPrint) {
  RandomProblems problems(1);
  for (int i = 0; i < 20'000; ++i) {
    const Problem problem = problems.next();
    const std::string line = problem.to_string();
    const Problem read = Problem::parse(line);
    ASSERT_EQ(read, problem) << line;
    ASSERT_EQ(read.to_string(), line);
  }
}

TEST(ProblemProperty, OrderOfWordsChangesNothing) {
  RandomProblems problems(2);
  std::mt19937_64 random(2);
  for (int i = 0; i < 2'000; ++i) {
    const Problem problem = problems.next();
    const std::string line = problem.to_string();
    const std::size_t bar = std::min(line.find(" |"), line.size());
    std::vector<std::string> words;
    for (std::size_t begin = line.find(' ') + 1; begin < bar;) {
      const std::size_t end = std::min(line.find(' ', begin), bar);
      words.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    std::shuffle(words.begin(), words.end(), random);
    std::string shuffled = line.substr(0, line.find(' '));
    for (const std::string& word : words) shuffled += " " + word;
    ASSERT_EQ(Problem::parse(shuffled + line.substr(bar)).to_string(), line);
  }
}

// Parses whatever it is given; a line that parses must print to a fixed point.
bool survives(const std::string& line) {
  try {
    const Problem problem = Problem::parse(line);
    const std::string printed = problem.to_string();
    if (Problem::parse(printed) != problem || Problem::parse(printed).to_string() != printed) {
      ADD_FAILURE() << "no fixed point: " << line;
    }
    EXPECT_GT(problem.flops(), 0) << line;
    EXPECT_GT(problem.compulsory_bytes(), 0) << line;
    EXPECT_GT(problem.output_extents().elements(), 0) << line;
    return true;
  } catch (const UserError& error) {
    EXPECT_EQ(error.text(), line);
    EXPECT_LE(error.offset() + error.length(), line.size()) << error.what();
    return false;
  }
}

TEST(ProblemProperty, MutatedLinesParseOrAreUserErrors) {
  RandomProblems problems(3);
  static constexpr char kBytes[] = "0123456789=x |-+.enckhwdtrs_\t\xc3\xa9";
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = problems.next().to_string();
    for (int edits = problems.integer(1, 4); edits > 0 && !line.empty(); --edits) {
      const auto at = static_cast<std::size_t>(problems.integer(0, static_cast<int>(line.size()) - 1));
      const char byte = kBytes[problems.integer(0, static_cast<int>(sizeof(kBytes)) - 2)];
      switch (problems.integer(0, 3)) {
        case 0:
          line[at] = byte;
          break;
        case 1:
          line.insert(at, 1, byte);
          break;
        case 2:
          line.erase(at, 1);
          break;
        default:
          line.insert(at, line.substr(at, 8));
          break;
      }
    }
    (survives(line) ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1'000);
}

TEST(ProblemProperty, GarbageIsAUserError) {
  RandomProblems random(4);
  for (int i = 0; i < 20'000; ++i) {
    std::string line = random.integer(0, 1) ? "conv2d " : "";
    for (int length = random.integer(0, 60); length > 0; --length) {
      line += static_cast<char>(random.integer(0, 255));
    }
    EXPECT_FALSE(survives(line));
  }
}

TEST(ProblemProperty, HugeNumbersNeverOverflow) {
  RandomProblems random(5);
  const auto huge = [&] {
    return std::to_string((std::uint64_t{1} << random.integer(0, 63)) -
                          static_cast<std::uint64_t>(random.integer(0, 1)));
  };
  for (int i = 0; i < 20'000; ++i) {
    survives("conv2d n=" + huge() + " c=" + huge() + " h=" + huge() + " w=" + huge() + " k=" + huge() +
             " r=" + huge() + " s=" + huge() + " pad=" + huge() + " dilation=" + huge() +
             " stride=" + huge());
  }
  for (int i = 0; i < 20'000; ++i) {
    survives("conv1d n=" + huge() + " c=1 w=" + huge() + " k=" + huge() + " s=1 bias | residual | residual");
  }
}

}  // namespace
}  // namespace knobwise
