// The inputs that bench/pytorch_reference.py makes are those that trials are timed on.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "kernels/operands.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

CommandResult print_operands(const std::string& problem, std::uint64_t seed) {
  const TemporaryFolder folder;
  return finish(start_program("python3",
                              {"bench/pytorch_reference.py", "--print-operands", problem, "--seed",
                               std::to_string(seed)},
                              folder),
                folder);
}

TEST(PytorchReference, MakesTheInputsOfTrials) {
  std::ifstream file("bench/reference_problems.txt");
  int problems = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    ++problems;
    const Problem problem = Problem::parse(line);
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{12345}}) {
      const CommandResult result = print_operands(line, seed);
      ASSERT_EQ(result.status, 0) << result.err;
      std::istringstream printed(result.out);
      int parameter = 0, last = -2;
      std::int64_t index = 0;
      for (double value = 0; printed >> parameter >> index >> value;) {
        const OperandFill fill = operand_fill(problem, Distribution::uniform, seed, parameter);
        EXPECT_EQ(value, operand_value(fill, index)) << line << ": " << parameter << ", " << index;
        const std::int64_t elements =
            parameter < 0 ? problem.input_extents().elements()
                          : problem.parameters()[static_cast<std::size_t>(parameter)].elements();
        EXPECT_LT(index, elements);
        last = index == elements - 1 ? parameter : last;
      }
      // The last element of the last parameter came too: shapes and their order agree.
      EXPECT_EQ(last, static_cast<int>(problem.parameters().size()) - 1) << line;
    }
  }
  EXPECT_EQ(problems, 5);
}

TEST(PytorchReference, RefusesWhatIsNoProblem) {
  for (const std::string problem :
       {"pool2d n=1", "conv2d n=1 c=4", "conv2d n=1 c=1 h=4 w=4 k=1 r=1 s=1 x=2"}) {
    const CommandResult result = print_operands(problem, 0);
    EXPECT_EQ(result.status, 2) << problem;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace knobwise::test
