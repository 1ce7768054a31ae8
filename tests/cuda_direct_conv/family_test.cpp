#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "search_spaces/user_error.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {
namespace {

using testing::HasSubstr;
using testing::Optional;

std::optional<std::string> reason(const char* line, int capability = 90) {
  return cuda_direct_conv_family().unsupported_reason(Problem::parse(line), cuda_target_info(capability));
}

BoundSpace space_of(const char* line) {
  return bind_space(cuda_direct_conv_family(), Problem::parse(line), cuda_target_info(90));
}

TEST(DirectConvFamily, SupportsTheReferenceProblems) {
  for (const char* line : kReferenceProblems) EXPECT_EQ(reason(line), std::nullopt) << line;
}

TEST(DirectConvFamily, SaysWhyAProblemIsNotSupported) {
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 dtype=f16"),
              Optional(HasSubstr("f32 tensors, not f16")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 layout=nhwc"), Optional(HasSubstr("layout nchw")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 | relu | residual"),
              Optional(HasSubstr("step 2 of the epilogue, residual")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 | max channel"), Optional(HasSubstr("max")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=1024 r=3 s=3 | softmax channel"),
              Optional(HasSubstr("512 channels")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 groups=2 | softmax channel"),
              Optional(HasSubstr("one group")));
  EXPECT_THAT(reason("conv2d n=1 c=1 h=2000 w=2000 k=8 r=999 s=999"),
              Optional(HasSubstr("the filter reaches")));
  EXPECT_THAT(reason("conv1d n=1 c=4 w=2000 k=4 s=1001 pad=500"),
              Optional(HasSubstr("at most 128, not 1001")));
}

TEST(DirectConvFamily, NeedsAsynchronousCopies) {
  DeviceInfo turing = cuda_target_info(80);
  turing.compute_capability = 75;
  const Problem problem = Problem::parse(kReferenceProblems[0]);
  EXPECT_THAT(cuda_direct_conv_family().unsupported_reason(problem, turing),
              Optional(HasSubstr("compute capability 8.0, not 7.5")));
}

TEST(DirectConvFamily, OffersConfigurationsForEverySupportedProblem) {
  for (const char* line : kExactProblems) EXPECT_GT(space_of(line).size(), 0u) << line;
  for (const char* line : kRoundedProblems) EXPECT_GT(space_of(line).size(), 0u) << line;
  for (const char* line : {"conv2d n=1 c=1 h=3 w=3 k=1 r=3 s=3", "conv1d n=1 c=1 w=1000000 k=16 s=64",
                           "conv2d n=8 c=3 h=224 w=224 k=768 r=16 s=16 stride=16",
                           "conv2d n=64 c=32 h=112 w=112 k=32 r=3 s=3 groups=32 pad=1 stride=2",
                           "conv2d n=1 c=8 h=64 w=64 k=512 r=3 s=3 | softmax channel",
                           "conv2d n=2 c=2048 h=40 w=224 k=512 r=7 s=7 | softmax channel",
                           "conv3d n=1 c=16 d=64 h=64 w=64 k=16 t=7 r=7 s=7 pad=3"})
    EXPECT_GT(space_of(line).size(), 0u) << line;
}

TEST(DirectConvFamily, OffersConfigurationsForRandomProblems) {
  std::mt19937 random(4);
  int supported = 0;
  for (int i = 0; i < 150; ++i) {
    const std::string line = random_problem(random);
    try {
      if (reason(line.c_str())) continue;
    } catch (const UserError&) {
      continue;  // the drawn parameters leave no output
    }
    ++supported;
    EXPECT_GT(space_of(line.c_str()).size(), 0u) << line;
  }
  EXPECT_GT(supported, 40);
}

TEST(DirectConvFamily, OffersAFewThousandConfigurationsForTheReferenceProblems) {
  for (const char* line : kReferenceProblems) {
    EXPECT_GT(space_of(line).size(), 500u) << line;
    EXPECT_LT(space_of(line).size(), 20000u) << line;
  }
}

TEST(DirectConvFamily, NormalisesInOneLaunchOrTwo) {
  const Problem problem = Problem::parse(kReferenceProblems[4]);
  const DeviceInfo device = cuda_target_info(90);
  std::set<std::size_t> launches;
  for (const Configuration& configuration : some_configurations(space_of(kReferenceProblems[4]), 50, 3)) {
    const KernelInstance instance = cuda_direct_conv_family().instantiate(problem, configuration, device);
    launches.insert(instance.run.size());
    EXPECT_EQ(instance.run.size() == 2, instance.workspace_bytes > 0);
    EXPECT_EQ(instance.run.size() == 2, configuration.text("norm_mode") == "workspace");
  }
  EXPECT_THAT(launches, testing::ElementsAre(1u, 2u));
}

TEST(DirectConvFamily, ReportsTheTileThatABlockCovers) {
  const Problem problem = Problem::parse(kReferenceProblems[2]);
  const BoundSpace space = space_of(kReferenceProblems[2]);
  const Configuration configuration = space.configuration(space.default_index());
  const OutputTile tile = cuda_direct_conv_family().tile(problem, configuration);
  EXPECT_EQ(tile.k, configuration.integer("channels_per_block"));
  EXPECT_EQ(tile.d, 1);
  EXPECT_EQ(tile.h, configuration.integer("tile_h"));
  EXPECT_EQ(tile.w, configuration.integer("tile_w"));
}

}  // namespace
}  // namespace knobwise
