// What a problem line says and what follows from it.
#include "kernels/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

namespace knobwise {
namespace {

using testing::ElementsAre;

constexpr const char* kP1 = "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias";
constexpr const char* kP2 = "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01";
constexpr const char* kP3 =
    "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel";
constexpr const char* kP4 = "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7";
constexpr const char* kP5 = "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine";

struct Published {
  const char* line;
  Extents output;
  double gflop;          // as the table of reference problems prints it, two decimals (one for P4)
  double compulsory_mb;  // the sum of its terms
  double mb_rounding;
};

const Published kPublished[] = {
    {kP1, {256, 96, 1, 55, 55}, 53.97, 154.1 + 0.14 + 297.4, 0.11},
    {kP2, {128, 64, 1, 126, 126}, 18.73, 67.1 + 520.2, 0.11},
    {kP3, {128, 24, 1, 30, 30}, 9.85, 37.7 + 11.1, 0.11},
    {kP4, {8, 128, 1, 508, 250}, 582.6, 268.4 + 1.15 + 520.2, 0.11},
    {kP5, {16, 256, 1, 1, 1024}, 3.22, 8.4 + 0.39 + 16.8, 0.11},
};

TEST(Problem, PublishedProblemsPrintAsTheyAreWritten) {
  for (const Published& published : kPublished) {
    EXPECT_EQ(Problem::parse(published.line).to_string(), published.line);
  }
}

TEST(Problem, PublishedProblemsHaveThePublishedFigures) {
  for (const Published& published : kPublished) {
    const Problem problem = Problem::parse(published.line);
    EXPECT_EQ(problem.output_extents(), published.output) << published.line;
    EXPECT_NEAR(static_cast<double>(problem.flops()) / 1e9, published.gflop,
                published.gflop < 100 ? 0.005 : 0.05)
        << published.line;
    EXPECT_NEAR(static_cast<double>(problem.compulsory_bytes()) / 1e6, published.compulsory_mb,
                published.mb_rounding)
        << published.line;
  }
}

TEST(Problem, FlopsAndBytesAreExact) {
  EXPECT_EQ(Problem::parse(kP1).flops(), 53'972'582'400);
  EXPECT_EQ(Problem::parse(kP4).flops(), 582'615'040'000);
  EXPECT_EQ(Problem::parse(kP5).flops(), 3'221'225'472);
  // Input, weights, scale and shift, output.
  EXPECT_EQ(Problem::parse(kP5).compulsory_bytes(),
            4 * (16 * 128 * 1024 + 256 * 128 * 3 + 2 * 256 + 16 * 256 * 1024));
}

TEST(Problem, SharedDocumentHoldsOnlyLinesThatParse) {
  std::ifstream file("../shared/PROBLEMS.md");
  if (!file) GTEST_SKIP() << "../shared/PROBLEMS.md is absent";
  const std::regex row(R"(\| P\d \| `([^`]*)`.*)");
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    const std::string problem = std::regex_replace(match[1].str(), std::regex(R"(\\\|)"), "|");
    EXPECT_EQ(Problem::parse(problem).to_string(), problem);
    ++found;
  }
  EXPECT_EQ(found, 5);
}

TEST(Problem, WordsMayStandInAnyOrder) {
  EXPECT_EQ(Problem::parse("conv2d bias s=3 r=3 k=64 w=128 h=128 c=8 n=128|div 2|leaky_relu 0.01"),
            Problem::parse(kP2));
}

TEST(Problem, BlanksAreOfNoConsequence) {
  EXPECT_EQ(
      Problem::parse("  conv2d\tn=128 c=8  h=128 w=128 k=64 r=3 s=3 bias |div 2|  leaky_relu  0.01 \r\n"),
      Problem::parse(kP2));
}

TEST(Problem, CanonicalLineLeavesDefaultsOut) {
  EXPECT_EQ(
      Problem::parse("conv2d n=1 c=2 h=8 w=8 k=2 r=3 s=3 stride=1 pad=0x0 dilation=1x1 groups=1 dtype=f32 "
                     "layout=nchw")
          .to_string(),
      "conv2d n=1 c=2 h=8 w=8 k=2 r=3 s=3");
}

TEST(Problem, CanonicalLineOrdersTheOptions) {
  EXPECT_EQ(
      Problem::parse("conv2d layout=nhwc dtype=bf16 groups=2 dilation=1x2 pad=2x1 stride=2x2 bias n=1 c=2 "
                     "h=8 w=8 k=2 r=3 s=3")
          .to_string(),
      "conv2d n=1 c=2 h=8 w=8 k=2 r=3 s=3 stride=2 pad=2x1 dilation=1x2 groups=2 dtype=bf16 layout=nhwc "
      "bias");
}

TEST(Problem, NumbersPrintInTheShortestFormThatReadsBack) {
  const auto canonical = [](const std::string& steps) {
    return Problem::parse("conv1d n=1 c=1 w=8 k=1 s=1 | " + steps).to_string().substr(29);
  };
  EXPECT_EQ(canonical("add 0.10"), "add 0.1");
  EXPECT_EQ(canonical("add 1e0"), "add 1");
  EXPECT_EQ(canonical("add 0.00001"), "add 1e-5");
  EXPECT_EQ(canonical("add 1e+20"), "add 1e20");
  EXPECT_EQ(canonical("add -2.50e-12"), "add -2.5e-12");
  EXPECT_EQ(canonical("mul -0"), "mul 0");
  EXPECT_EQ(canonical("add 0.30000000000000004"), "add 0.30000000000000004");
}

TEST(Problem, LowerRanksUseTheLastDimensions) {
  const Problem one = Problem::parse("conv1d n=1 c=2 w=9 k=4 s=3 stride=2 pad=1 dilation=2");
  EXPECT_THAT(one.in, ElementsAre(1, 1, 9));
  EXPECT_THAT(one.filter, ElementsAre(1, 1, 3));
  EXPECT_THAT(one.stride, ElementsAre(1, 1, 2));
  EXPECT_THAT(one.pad, ElementsAre(0, 0, 1));
  EXPECT_THAT(one.dilation, ElementsAre(1, 1, 2));
  EXPECT_EQ(one.conv_extents(), (Extents{1, 4, 1, 1, 4}));

  const Problem three = Problem::parse("conv3d n=1 c=1 d=4 h=5 w=6 k=1 t=1 r=2 s=3 stride=1x2x3 pad=0x1x2");
  EXPECT_THAT(three.stride, ElementsAre(1, 2, 3));
  EXPECT_EQ(three.conv_extents(), (Extents{1, 1, 4, 3, 3}));
}

TEST(Problem, OutputExtentCountsDilationStrideAndPadding) {
  // (20 + 2*3 - ((4-1)*2 + 1)) / 3 + 1
  EXPECT_EQ(Problem::parse("conv1d n=1 c=1 w=20 k=1 s=4 stride=3 pad=3 dilation=2").conv_extents().w, 7);
}

TEST(Problem, ReductionsLeaveAnExtentOfOne) {
  const Problem problem = Problem::parse(kP3);
  EXPECT_EQ(problem.conv_extents(), (Extents{128, 24, 22, 30, 30}));
  EXPECT_EQ(problem.extents_before(0), problem.conv_extents());
  EXPECT_EQ(problem.extents_before(1), (Extents{128, 24, 1, 30, 30}));
  EXPECT_EQ(problem.extents_before(2), problem.output_extents());
}

TEST(Problem, ParametersComeInOrderWithTheirStep) {
  const auto specs =
      Problem::parse(
          "conv2d n=2 c=4 h=8 w=8 k=6 r=3 s=1 groups=2 bias | relu | residual | group_norm groups=3 "
          "affine | instance_norm")
          .parameters();
  ASSERT_EQ(specs.size(), 5u);
  EXPECT_EQ(specs[0].name, "weights");
  EXPECT_THAT(specs[0].extents, ElementsAre(6, 2, 1, 3, 1));
  EXPECT_EQ(specs[1].name, "bias");
  EXPECT_THAT(specs[1].extents, ElementsAre(6));
  EXPECT_EQ(specs[2].name, "residual1");
  EXPECT_THAT(specs[2].extents, ElementsAre(2, 6, 1, 6, 8));
  EXPECT_EQ(specs[3].name, "scale2");
  EXPECT_EQ(specs[4].name, "shift2");
  EXPECT_EQ(specs[4].elements(), 6);
}

TEST(Problem, NormsDefaultToTheUsualEpsilon) {
  const Problem problem =
      Problem::parse("conv1d n=1 c=1 w=8 k=4 s=1 | group_norm groups=2 | instance_norm affine");
  EXPECT_EQ(problem.to_string(),
            "conv1d n=1 c=1 w=8 k=4 s=1 | group_norm groups=2 eps=1e-5 | instance_norm eps=1e-5 affine");
}

TEST(Problem, ConstantsNameEveryDimension) {
  std::map<std::string, Value> constants;
  for (auto& [name, value] : problem_constants(
           Problem::parse("conv2d n=2 c=4 h=8 w=9 k=6 r=3 s=1 stride=2x1 groups=2 dtype=f16 bias"))) {
    EXPECT_TRUE(constants.emplace(name, value).second) << name << " is there twice";
  }
  const auto at = [&](const char* name) { return std::get<std::int64_t>(constants.at(name)); };
  EXPECT_EQ(at("n"), 2);
  EXPECT_EQ(at("d"), 1);
  EXPECT_EQ(at("h"), 8);
  EXPECT_EQ(at("w"), 9);
  EXPECT_EQ(at("t"), 1);
  EXPECT_EQ(at("r"), 3);
  EXPECT_EQ(at("stride_d"), 1);
  EXPECT_EQ(at("stride_h"), 2);
  EXPECT_EQ(at("oh"), 3);
  EXPECT_EQ(at("ow"), 9);
  EXPECT_EQ(at("bias"), 1);
  EXPECT_EQ(at("rank"), 2);
  EXPECT_EQ(at("dtype_bytes"), 2);
  EXPECT_EQ(at("fan_in"), 6);
  EXPECT_EQ(at("c_per_group"), 2);
  EXPECT_EQ(at("k_per_group"), 3);
}

TEST(Problem, LargestProblemsThatFitAreAccepted) {
  // 2^58 operations and 2^60 bytes: far beyond 32 bits, within 63.
  const Problem problem = Problem::parse("conv1d n=1 c=1 w=144115188075855872 k=1 s=1");
  EXPECT_EQ(problem.flops(), std::int64_t{1} << 58);
  EXPECT_EQ(problem.compulsory_bytes(), (std::int64_t{1} << 60) + 4);
}

}  // namespace
}  // namespace knobwise
