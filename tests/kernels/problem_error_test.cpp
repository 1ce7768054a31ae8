// Every mistake in a problem line is a UserError that points at the word.
#include <gtest/gtest.h>

#include <string>

#include "kernels/problem.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

struct Mistake {
  const char* name;
  const char* line;     // the word at fault stands between brackets: conv2d [n=0] ...
  const char* message;  // part of the message
};

class ProblemMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ProblemMistake, PointsAtTheWord) {
  std::string line = GetParam().line;
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  line.erase(close, 1).erase(open, 1);
  try {
    const Problem problem = Problem::parse(line);
    FAIL() << "accepted: " << problem.to_string();
  } catch (const UserError& error) {
    EXPECT_EQ(error.text(), line);
    EXPECT_EQ(error.offset(), open) << error.what();
    EXPECT_EQ(error.length(), close - open - 1) << error.what();
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Words, ProblemMistake,
    testing::Values(Mistake{"Empty", "[]", "empty"}, Mistake{"Blank", "   []", "empty"},
                    Mistake{"UnknownOperator", "[conv4d] n=1", "unknown operator 'conv4d'"},
                    Mistake{"Transposed", "[conv_transpose2d] n=1 c=1 output_pad=1",
                            "transposed convolutions are not supported"},
                    Mistake{"OperatorMissing", "[n=1] c=1", "begin with conv1d"},
                    Mistake{"BarFirst", "[|] relu", "begin with conv1d"},
                    Mistake{"UnknownWord", "conv1d [frobnicate=3] n=1", "unknown word 'frobnicate'"},
                    Mistake{"MisspeltStride", "conv1d [strde=2] n=1", "did you mean 'stride'"},
                    Mistake{"MisspeltBias", "conv1d [bais] n=1", "did you mean 'bias'"},
                    Mistake{"CapitalLetter", "conv1d [N=1] c=1", "unknown word 'N'"},
                    Mistake{"StepWithoutBar", "conv1d n=1 c=1 w=8 k=1 s=1 [relu]", "comes after '|'"},
                    Mistake{"Twice", "conv1d n=1 [n=2] c=1", "given twice"},
                    Mistake{"BiasTwice", "conv1d bias [bias] n=1", "given twice"},
                    Mistake{"BiasWithValue", "conv1d [bias=1] n=1", "takes no value"},
                    Mistake{"NoValue", "conv1d [n] c=1", "needs a value"},
                    Mistake{"EmptyValue", "conv1d [n=] c=1", "not a whole number"},
                    Mistake{"Letters", "conv1d [n=12x] c=1", "not a whole number"},
                    Mistake{"Real", "conv1d [n=1.5] c=1", "not a whole number"},
                    Mistake{"Zero", "conv1d [n=0] c=1", "too small"},
                    Mistake{"Negative", "conv1d [c=-4] n=1", "too small"},
                    Mistake{"OutOfRange", "conv1d [n=9223372036854775808] c=1", "out of range"},
                    Mistake{"DepthIn2d", "conv2d [d=4] n=1", "no dimension 'd'"},
                    Mistake{"FilterHeightIn1d", "conv1d [r=3] n=1", "no dimension 'r'"},
                    Mistake{"MissingOne", "[conv2d] n=1 c=1 h=8 w=8 k=1 r=3", "needs s="},
                    Mistake{"MissingSeveral", "[conv3d] n=1 h=8 w=8 r=3 s=3", "needs c= d= k= t="},
                    Mistake{"NegativePad", "conv1d n=1 c=1 w=8 k=1 s=1 [pad=-1]", "at least 0"},
                    Mistake{"ZeroStride", "conv1d n=1 c=1 w=8 k=1 s=1 [stride=0]", "at least 1"},
                    Mistake{"ZeroDilation", "conv1d n=1 c=1 w=8 k=1 s=1 [dilation=0]", "at least 1"},
                    Mistake{"TooManyStrides", "conv1d n=1 c=1 w=8 k=1 s=1 [stride=1x2]",
                            "1 spatial dimension:"},
                    Mistake{"TooFewStrides", "conv3d [stride=1x2] n=1", "3 spatial dimensions"},
                    Mistake{"HalfAStride", "conv2d [stride=2x] n=1", "not a whole number"},
                    Mistake{"UnknownDtype", "conv1d [dtype=f64] n=1", "use f32, f16 or bf16"},
                    Mistake{"UnknownLayout", "conv1d [layout=chwn] n=1", "use nchw or nhwc"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Computed, ProblemMistake,
    testing::Values(
        Mistake{"GroupsDoNotDivideInput", "conv1d n=1 c=3 w=8 k=4 s=1 [groups=2]", "does not divide c=3"},
        Mistake{"GroupsDoNotDivideOutput", "conv1d n=1 c=4 w=8 k=3 s=1 [groups=2]", "does not divide k=3"},
        Mistake{"NoGroups", "conv1d n=1 c=4 w=8 k=3 s=1 [groups=0]", "at least 1"},
        Mistake{"EmptyOutput", "conv2d n=1 c=1 h=8 w=8 k=1 r=3 [s=9]", "output is empty"},
        Mistake{"EmptyOutputByDilation", "conv2d n=1 c=1 h=8 w=8 k=1 [r=3] s=3 dilation=4x1",
                "output is empty"},
        Mistake{"HugeFilterAndDilation",
                "conv1d n=1 c=1 w=8 k=1 [s=9000000000000000000] dilation=9000000000000000000",
                "output is empty"},
        Mistake{"HugePad", "conv1d n=1 c=1 w=8 k=1 s=1 [pad=9000000000000000000]", "exceeds 2^63"},
        Mistake{"InputTooLarge", "conv1d n=4 c=4 [w=1000000000000000000] k=1 s=1", "exceeds 2^63"},
        Mistake{"WeightsTooLarge", "conv1d n=1 c=10000000000 w=1 [k=20000000000] s=1", "exceeds 2^63"},
        Mistake{"OperationsTooMany", "conv1d n=1000000 c=1000000 w=1 [k=5000000] s=1", "exceeds 2^63"},
        Mistake{"OutputTooLarge", "conv1d [n=3000000000] c=1 w=1 k=2000000000 s=1", "exceeds 2^63"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Epilogue, ProblemMistake,
    testing::Values(
        Mistake{"TrailingBar", "conv1d n=1 c=1 w=8 k=1 s=1 [|]", "must follow '|'"},
        Mistake{"DoubleBar", "conv1d n=1 c=1 w=8 k=1 s=1 [|] | relu", "must follow '|'"},
        Mistake{"UnknownStep", "conv1d n=1 c=1 w=8 k=1 s=1 | [leaky_rellu] 0.1", "did you mean 'leaky_relu'"},
        Mistake{"NoNumber", "conv1d n=1 c=1 w=8 k=1 s=1 | [add]", "needs 1 number"},
        Mistake{"NotANumber", "conv1d n=1 c=1 w=8 k=1 s=1 | add [two]", "not a number"},
        Mistake{"Nan", "conv1d n=1 c=1 w=8 k=1 s=1 | add [nan]", "not a number"},
        Mistake{"Infinite", "conv1d n=1 c=1 w=8 k=1 s=1 | add [inf]", "out of range"},
        Mistake{"BeyondFp32", "conv1d n=1 c=1 w=8 k=1 s=1 | mul [1e39]", "out of range"},
        Mistake{"BeyondFp64", "conv1d n=1 c=1 w=8 k=1 s=1 | mul [1e999]", "out of range"},
        Mistake{"VanishesInFp32", "conv1d n=1 c=1 w=8 k=1 s=1 | div [1e-50]", "out of range"},
        Mistake{"OneNumberTooMany", "conv1d n=1 c=1 w=8 k=1 s=1 | relu [6]", "takes 0 numbers"},
        Mistake{"DivisionByZero", "conv1d n=1 c=1 w=8 k=1 s=1 | div [0]", "division by zero"},
        Mistake{"DivisionByMinusZero", "conv1d n=1 c=1 w=8 k=1 s=1 | div [-0.0]", "division by zero"},
        Mistake{"ClampUpsideDown", "conv1d n=1 c=1 w=8 k=1 s=1 | clamp 6 [0]", "below the lower"},
        Mistake{"DepthIn2d", "conv2d n=1 c=1 h=8 w=8 k=1 r=1 s=1 | min [depth]", "no depth"},
        Mistake{"HeightIn1d", "conv1d n=1 c=1 w=8 k=1 s=1 | max [height]", "no height"},
        Mistake{"UnknownAxis", "conv1d n=1 c=1 w=8 k=1 s=1 | max [batch]", "'batch'"},
        Mistake{"NoAxis", "conv1d n=1 c=1 w=8 k=1 s=1 | [max]", "takes one axis"},
        Mistake{"TwoAxes", "conv1d n=1 c=1 w=8 k=1 s=1 | max width [channel]", "takes one axis"},
        Mistake{"AxisTwice", "conv1d n=1 c=1 w=8 k=1 s=1 | max width | relu | mean [width]",
                "reduced before"},
        Mistake{"SoftmaxOverWidth", "conv1d n=1 c=1 w=8 k=1 s=1 | softmax [width]", "'width'"},
        Mistake{"NormWithoutGroups", "conv1d n=1 c=1 w=8 k=4 s=1 | [group_norm] eps=1e-5", "needs groups="},
        Mistake{"NormGroupsDoNotDivide", "conv1d n=1 c=1 w=8 k=4 s=1 | group_norm [groups=3]",
                "does not divide"},
        Mistake{"NormGroupsAfterReduction",
                "conv1d n=1 c=1 w=8 k=4 s=1 | max channel | group_norm [groups=2]",
                "does not divide the 1 channels"},
        Mistake{"NormGroupsTwice", "conv1d n=1 c=1 w=8 k=4 s=1 | group_norm groups=2 [groups=4]",
                "given twice"},
        Mistake{"NegativeEps", "conv1d n=1 c=1 w=8 k=4 s=1 | instance_norm [eps=-1]", "negative"},
        Mistake{"InstanceNormGroups", "conv1d n=1 c=1 w=8 k=4 s=1 | instance_norm [groups=2]",
                "does not take"},
        Mistake{"AffineWithValue", "conv1d n=1 c=1 w=8 k=4 s=1 | instance_norm [affine=1]", "does not take"}),
    [](const auto& info) { return info.param.name; });

// Written out in full a line may be longer than it was read, and it is read again from databases.
TEST(ProblemLength, LinesOfMoreThan4096CharactersAreRefusedHoweverTheyAreWritten) {
  const std::string start = "conv1d n=1 c=1 w=8 k=1 s=1";
  EXPECT_NO_THROW(Problem::parse(start + std::string(4096 - start.size(), ' ')));
  EXPECT_THROW(Problem::parse(start + std::string(4097 - start.size(), ' ')), UserError);
  std::string norms = start;
  while (norms.size() < 3900) norms += "|group_norm groups=1";
  EXPECT_THROW(Problem::parse(norms), UserError);
}

}  // namespace
}  // namespace knobwise
