#include "kernels/cuda/unfused_epilogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/implicit_gemm_family.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/device.h"
#include "tests/cuda/unfused_epilogue_problems.h"

namespace knobwise {
namespace {

const DeviceInfo& hopper() {
  static const DeviceInfo info = cuda_target_info(90);
  return info;
}

KernelInstance default_instance(const KernelFamily& family, const Problem& problem) {
  const BoundSpace space = bind_space(family, problem, hopper());
  return family.instantiate(problem, space.configuration(space.default_index()), hopper());
}

bool writes_output(const KernelLaunch& launch) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(),
                     [](const BufferRef& argument) { return argument.slot == Slot::output; });
}

TEST(UnfusedEpilogue, EveryFamilyDoesEveryEpilogueOfAConvolutionItDoes) {
  for (const char* line : kUnfusedProblems) {
    const Problem problem = Problem::parse(line);
    Problem convolution = problem;
    convolution.epilogue.clear();
    for (const KernelFamily* family : cuda_families()) {
      if (family->builtin()) continue;
      EXPECT_EQ(family->unsupported_reason(problem, hopper()).has_value(),
                family->unsupported_reason(convolution, hopper()).has_value())
          << family->name() << " " << line;
    }
  }
}

TEST(UnfusedEpilogue, LeavesWhatTheKernelFusesAlone) {
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  const Problem problem = Problem::parse("conv2d n=2 c=4 h=12 w=15 k=20 r=3 s=3 bias | relu | residual");
  const KernelInstance instance = default_instance(family, problem);
  EXPECT_EQ(instance.run.size(), 1u);
  EXPECT_EQ(instance.workspace_bytes, 0u);
  EXPECT_EQ(instance.source, default_instance(cuda_implicit_gemm_family(), problem).source);
}

TEST(UnfusedEpilogue, FusesANormThatTheKernelHasConfigurationsFor) {
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  const Problem problem =
      Problem::parse("conv1d n=2 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine");
  const KernelInstance instance = default_instance(family, problem);
  EXPECT_EQ(instance.run.size(), 1u);
  EXPECT_EQ(instance.source, default_instance(cuda_implicit_gemm_family(), problem).source);
}

// Groups of channels that divide no block of the space, or outputs that no cluster's registers hold.
TEST(UnfusedEpilogue, LeavesANormToPassesWhereTheKernelHasNoConfigurationsForIt) {
  for (const char* line :
       {kUnfusedProblems[8],
        "conv2d n=2 c=8 h=8 w=8 k=512 r=3 s=3 pad=1 | group_norm groups=1 eps=1e-5 affine",
        "conv2d n=2 c=8 h=8 w=8 k=300 r=3 s=3 pad=1 dtype=f16 | group_norm groups=2 eps=1e-5",
        "conv1d n=1 c=64 w=192 k=256 s=1 | group_norm groups=1 eps=1e-5"}) {
    const Problem problem = Problem::parse(line);
    Problem convolution = problem;
    convolution.epilogue.clear();
    for (const int capability : {80, 90}) {
      const DeviceInfo device = cuda_target_info(capability);
      for (const KernelFamily* family : cuda_families()) {
        if (family->builtin() || family->unsupported_reason(problem, device)) continue;
        EXPECT_EQ(bind_space(*family, problem, device).empty(),
                  bind_space(*family, convolution, device).empty())
            << family->name() << " " << capability << " " << line;
      }
    }
  }
}

// A family that has not been asked for its space judges a configuration by that configuration alone, where it
// can.
TEST(UnfusedEpilogue, JudgesAConfigurationAsItsSpaceDoes) {
  for (const char* line :
       {kUnfusedProblems[8],
        "conv2d n=2 c=8 h=8 w=8 k=512 r=3 s=3 pad=1 | group_norm groups=1 eps=1e-5 affine",
        "conv1d n=2 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine",
        "conv3d n=2 c=3 d=8 h=12 w=14 k=24 t=3 r=3 s=3 bias | min depth | softmax channel"}) {
    const Problem problem = Problem::parse(line);
    const UnfusedEpilogue asked(cuda_implicit_gemm_family()), judge(cuda_implicit_gemm_family());
    const BoundSpace space = bind_space(asked, problem, hopper());
    std::mt19937_64 random(3);
    for (const std::uint64_t index : space.sample(5, random)) {
      const UnfusedEpilogue fresh(cuda_implicit_gemm_family());
      const Configuration valid = space.configuration(index);
      EXPECT_EQ(fresh.violation(problem, valid, hopper()), std::nullopt) << line << " " << valid.to_json();
      EXPECT_EQ(fresh.extra_constants(problem, hopper()), asked.extra_constants(problem, hopper()));
      EXPECT_EQ(fresh.instantiate(problem, valid, hopper()).source,
                asked.instantiate(problem, valid, hopper()).source);
      Positions positions = space.positions(index);
      for (std::size_t knob = 0; knob < positions.size(); ++knob) {
        positions[knob] = static_cast<std::uint32_t>(random() % space.knobs()[knob].values.size());
        const Configuration other = space.configuration(positions);
        EXPECT_EQ(judge.violation(problem, other, hopper()).has_value(), !space.contains(other))
            << line << " " << other.to_json();
      }
    }
  }
}

TEST(UnfusedEpilogue, TheLastPassAloneWritesTheOutput) {
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  const Problem problem =
      Problem::parse("conv2d n=2 c=4 h=12 w=15 k=20 r=3 s=3 bias | relu | max channel | mean width");
  const KernelInstance instance = default_instance(family, problem);
  ASSERT_EQ(instance.run.size(), 3u);
  EXPECT_FALSE(writes_output(instance.run[0]));
  EXPECT_FALSE(writes_output(instance.run[1]));
  EXPECT_TRUE(writes_output(instance.run[2]));
  EXPECT_GE(instance.workspace_bytes, std::size_t{2 * 20 * 10 * 13 * 4 + 2 * 10 * 13 * 4});
}

TEST(UnfusedEpilogue, ElementWiseStepsWorkOnTheOutputInPlace) {
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  const Problem problem =
      Problem::parse("conv2d n=2 c=4 h=12 w=15 k=20 r=3 s=3 | residual | residual | relu");
  const KernelInstance instance = default_instance(family, problem);
  ASSERT_EQ(instance.run.size(), 2u);
  EXPECT_EQ(instance.workspace_bytes, 0u);
}

TEST(UnfusedEpilogue, SaysWhyTheConvolutionIsNotSupported) {
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  EXPECT_THAT(family.unsupported_reason(
                  Problem::parse("conv2d n=1 c=1 h=2000 w=2000 k=8 r=999 s=999 | max channel"), hopper()),
              testing::Optional(testing::HasSubstr("shared memory")));
}

TEST(UnfusedEpilogue, CompilesForEveryFamily) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  for (const char* line : kUnfusedProblems) {
    const Problem problem = Problem::parse(line);
    for (const KernelFamily* family : cuda_families()) {
      if (family->builtin() || family->unsupported_reason(problem, hopper())) continue;
      try {
        EXPECT_FALSE(cuda_compile(default_instance(*family, problem), hopper()).image.empty());
      } catch (const TrialError& error) {
        ADD_FAILURE() << family->name() << " " << line << ": " << error.what();
      }
    }
  }
}

TEST(UnfusedEpilogue, CompilesWhereTheReductionIsSplitToo) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  const UnfusedEpilogue family(cuda_implicit_gemm_family());
  const Problem problem = Problem::parse(kUnfusedProblems[7]);
  const BoundSpace space = bind_space(family, problem, hopper());
  std::mt19937_64 random(3);
  for (const std::uint64_t index : space.sample(200, random)) {
    const Configuration configuration = space.configuration(index);
    if (configuration.integer("split_k") == 1) continue;
    const KernelInstance instance = family.instantiate(problem, configuration, hopper());
    EXPECT_EQ(instance.run.size(), 4u) << "the convolution, the sum of its parts, and two passes";
    EXPECT_FALSE(cuda_compile(instance, hopper()).image.empty());
    return;
  }
  FAIL() << "no configuration splits the reduction";
}

}  // namespace
}  // namespace knobwise
