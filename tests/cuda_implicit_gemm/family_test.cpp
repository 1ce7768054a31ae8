#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "search_spaces/user_error.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

using testing::HasSubstr;
using testing::Optional;

std::optional<std::string> reason(const char* line, int capability = 90) {
  return cuda_implicit_gemm_family().unsupported_reason(Problem::parse(line), cuda_target_info(capability));
}

BoundSpace space_of(const char* line) {
  return bind_space(cuda_implicit_gemm_family(), Problem::parse(line), cuda_target_info(90));
}

TEST(ImplicitGemmFamily, SupportsTheReferenceProblems) {
  for (const char* line : kReferenceProblems) EXPECT_EQ(reason(line), std::nullopt) << line;
}

TEST(ImplicitGemmFamily, SaysWhyAProblemIsNotSupported) {
  EXPECT_EQ(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 | relu | residual | relu"), std::nullopt);
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 | residual | residual"),
              Optional(HasSubstr("step 2 of the epilogue, residual")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=8 r=3 s=3 | max channel"), Optional(HasSubstr("max")));
  EXPECT_THAT(reason("conv2d n=1 c=8 h=9 w=9 k=1024 r=3 s=3 | softmax channel"),
              Optional(HasSubstr("128 channels")));
  EXPECT_THAT(reason(kReferenceProblems[4], 80), Optional(HasSubstr("1 blocks")));
  EXPECT_THAT(reason("conv2d n=1 c=1 h=2000 w=2000 k=8 r=999 s=999"), Optional(HasSubstr("shared memory")));
}

TEST(ImplicitGemmFamily, BeginsWithWarpgroupsWhereFiltersAreLargeAndTheDeviceHasThem) {
  for (const auto& [capability, instruction] : {std::pair{80, "mma"}, {89, "mma"}, {90, "wgmma"}}) {
    const BoundSpace space = bind_space(cuda_implicit_gemm_family(), Problem::parse(kReferenceProblems[0]),
                                        cuda_target_info(capability));
    EXPECT_EQ(space.configuration(space.default_index()).text("instruction"), instruction) << capability;
  }
}

TEST(ImplicitGemmFamily, OffersConfigurationsForEverySupportedProblem) {
  for (const char* line : kExactProblems) EXPECT_GT(space_of(line).size(), 0u) << line;
  for (const char* line : kExactMatrixProblems) EXPECT_GT(space_of(line).size(), 0u) << line;
  for (const char* line : kRoundedProblems) EXPECT_GT(space_of(line).size(), 0u) << line;
}

TEST(ImplicitGemmFamily, OffersConfigurationsForRandomProblems) {
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

std::optional<std::string> reason_sm90(const char* line, int capability = 90) {
  return cuda_implicit_gemm_sm90_family().unsupported_reason(Problem::parse(line),
                                                             cuda_target_info(capability));
}

TEST(ImplicitGemmSm90Family, SaysWhyAProblemIsNotSupported) {
  EXPECT_THAT(reason_sm90(kReferenceProblems[3], 89), Optional(HasSubstr("9.0 alone, not 8.9")));
  EXPECT_THAT(reason_sm90(kReferenceProblems[0]), Optional(HasSubstr("stride 1 along w, not 4")));
  EXPECT_THAT(reason_sm90(kReferenceProblems[2]), Optional(HasSubstr("element-wise steps and norms only")));
  EXPECT_THAT(reason_sm90("conv2d n=1 c=8 h=200 w=200 k=8 r=3 s=3 | instance_norm eps=1e-5"),
              Optional(HasSubstr("at most 8 blocks")));
  EXPECT_THAT(reason_sm90("conv1d n=1 c=8 w=9000 k=8 s=999"), Optional(HasSubstr("999 taps")));
}

TEST(ImplicitGemmSm90Family, OffersConfigurationsForEverySupportedProblem) {
  int supported = 0;
  const auto check = [&](const char* line) {
    if (reason_sm90(line)) return;
    ++supported;
    EXPECT_GT(bind_space(cuda_implicit_gemm_sm90_family(), Problem::parse(line), cuda_target_info(90)).size(),
              0u)
        << line;
  };
  for (const char* line : kExactProblems) check(line);
  for (const char* line : kExactMatrixProblems) check(line);
  for (const char* line : kRoundedProblems) check(line);
  // Units of work between two numbers of stages.
  check("conv2d n=1 c=4 h=3 w=5 k=200 r=5 s=1 pad=2x1 dtype=bf16");
  check("conv2d n=1 c=4 h=9 w=9 k=64 r=7 s=1 dtype=f16");
  EXPECT_GT(supported, 17);
}

std::set<std::string> input_copies_of(const char* line) {
  const BoundSpace space =
      bind_space(cuda_implicit_gemm_sm90_family(), Problem::parse(line), cuda_target_info(90));
  std::set<std::string> found;
  for (std::uint64_t i = 0; i < space.size(); ++i)
    found.insert(std::string(space.configuration(i).text("input_copies")));
  return found;
}

TEST(ImplicitGemmSm90Family, LetsTheCopyEngineBringInputThatLiesAsItIsMultiplied) {
  using testing::ElementsAre;
  EXPECT_THAT(input_copies_of("conv1d n=1 c=24 w=70 k=64 s=3 dtype=f16 layout=nhwc"),
              ElementsAre("engine", "threads"));
  EXPECT_THAT(input_copies_of("conv1d n=1 c=24 w=70 k=64 s=3 dtype=f16"), ElementsAre("threads"));
  EXPECT_THAT(input_copies_of("conv1d n=1 c=24 w=70 k=64 s=3 layout=nhwc"), ElementsAre("threads"));
  EXPECT_THAT(input_copies_of("conv1d n=1 c=20 w=70 k=64 s=3 dtype=bf16 layout=nhwc"),
              ElementsAre("threads"));
  EXPECT_THAT(input_copies_of("conv1d n=1 c=24 w=70 k=64 s=3 groups=2 dtype=f16 layout=nhwc"),
              ElementsAre("threads"))
      << "a chunk of channels would reach into the next group";
}

TEST(ImplicitGemmSm90Family, DescribesTheInputToTheCopyEngine) {
  const Problem problem =
      Problem::parse("conv3d n=2 c=24 d=5 h=40 w=33 k=64 t=2 r=3 s=3 stride=1x3x1 dtype=f16 layout=nhwc");
  const BoundSpace space = bind_space(cuda_implicit_gemm_sm90_family(), problem, cuda_target_info(90));
  int found = 0;
  for (std::uint64_t i = 0; i < space.size(); ++i) {
    const Configuration configuration = space.configuration(i);
    const KernelInstance instance =
        cuda_implicit_gemm_sm90_family().instantiate(problem, configuration, cuda_target_info(90));
    const KernelLaunch& launch = instance.run.front();
    const bool copied = configuration.text("input_copies") == "engine";
    ASSERT_EQ(launch.tensor_map.has_value(), copied);
    if (!copied || configuration.integer("tile_h") != 2 || configuration.integer("tile_w") != 31) continue;
    ++found;
    const TensorMap& map = *launch.tensor_map;
    EXPECT_EQ(launch.arguments.at(map.argument), BufferRef{Slot::input});
    EXPECT_EQ(map.dtype, DType::f16);
    EXPECT_THAT(map.extents, testing::ElementsAre(24u, 33u, 40u, 5u, 2u));
    EXPECT_THAT(map.box, testing::ElementsAre(8u, 33u, 4u, 1u, 1u));
    EXPECT_THAT(map.steps, testing::ElementsAre(1u, 1u, 3u, 1u, 1u));
  }
  EXPECT_GT(found, 0);
}

TEST(ImplicitGemmSm90Family, OffersConfigurationsForRandomProblems) {
  std::mt19937 random(9);
  int supported = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string line = random_problem(random);
    try {
      if (reason_sm90(line.c_str())) continue;
    } catch (const UserError&) {
      continue;  // the drawn parameters leave no output
    }
    ++supported;
    EXPECT_GT(bind_space(cuda_implicit_gemm_sm90_family(), Problem::parse(line), cuda_target_info(90)).size(),
              0u)
        << line;
  }
  EXPECT_GT(supported, 10);
}

}  // namespace
}  // namespace knobwise
