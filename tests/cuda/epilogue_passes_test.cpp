#include "kernels/cuda/epilogue_passes.h"

#include <gtest/gtest.h>

#include "kernels/cuda/nvrtc.h"
#include "kernels/device.h"
#include "tests/cuda/small_problems.h"

namespace knobwise {
namespace {

PassPlan plan_of(const Problem& problem, bool nhwc, bool bias_done) {
  return plan_passes(problem, PassSource{nhwc, bias_done, 0, problem.dtype, 1});
}

TEST(EpiloguePasses, ANakedConvolutionInItsOwnLayoutNeedsNone) {
  const Problem problem = Problem::parse("conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 bias");
  EXPECT_TRUE(plan_of(problem, false, true).passes.empty());
  EXPECT_TRUE(plan_of(problem, false, true).in_place);
}

TEST(EpiloguePasses, ElementWiseStepsAreOnePassInPlace) {
  const Problem problem = Problem::parse("conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 bias | div 2 | leaky_relu 0.01");
  const PassPlan plan = plan_of(problem, false, false);
  ASSERT_EQ(plan.passes.size(), 1u);
  EXPECT_TRUE(plan.in_place);
  EXPECT_EQ(plan.passes[0].out, PassTensor::output);
}

TEST(EpiloguePasses, AnotherLayoutIsConvertedWithTheElementWiseSteps) {
  const Problem problem = Problem::parse("conv2d n=2 c=4 h=9 w=9 k=8 r=3 s=3 | relu");
  const PassPlan plan = plan_of(problem, true, false);
  EXPECT_EQ(plan.passes.size(), 1u);
  EXPECT_FALSE(plan.in_place);
  EXPECT_NE(plan.source.find("kw_convert_input"), std::string::npos);
}

TEST(EpiloguePasses, EveryReductionIsOnePassThroughFloatScratch) {
  const Problem problem = Problem::parse(
      "conv3d n=3 c=3 d=7 h=8 w=9 k=24 t=3 r=3 s=3 bias | relu | min depth | softmax channel | mul 2");
  const PassPlan plan = plan_of(problem, false, false);
  ASSERT_EQ(plan.passes.size(), 2u);
  EXPECT_EQ(plan.passes[0].in, PassTensor::source);
  EXPECT_EQ(plan.passes[0].out, PassTensor::scratch0);
  EXPECT_EQ(plan.passes[1].in, PassTensor::scratch0);
  EXPECT_EQ(plan.passes[1].out, PassTensor::output);
  EXPECT_EQ(plan.scratch_bytes[0], std::size_t{3 * 24 * 6 * 7 * 4});
}

TEST(EpiloguePasses, CompileForEveryKindOfProblem) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  for (const char* line : kSmallProblems) {
    const Problem problem = Problem::parse(line);
    for (bool nhwc : {false, true}) {
      const PassPlan plan = plan_of(problem, nhwc, false);
      try {
        EXPECT_FALSE(nvrtc_compile(plan.source, {"--gpu-architecture=sm_90a", "--std=c++17"}).cubin.empty())
            << line;
      } catch (const TrialError& error) {
        ADD_FAILURE() << line << (nhwc ? " nhwc: " : " nchw: ") << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace knobwise
