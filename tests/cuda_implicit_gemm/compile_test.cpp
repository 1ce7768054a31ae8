#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "kernels/cuda/nvrtc.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

/// A problem, a compute capability and a family.
using Case = std::tuple<const char*, int, const KernelFamily* (*)()>;

class CompileTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
    if (const auto reason = family().unsupported_reason(problem(), target())) GTEST_SKIP() << *reason;
  }

  const KernelFamily& family() const { return *std::get<2>(GetParam())(); }
  Problem problem() const { return Problem::parse(std::get<0>(GetParam())); }
  DeviceInfo target() const { return cuda_target_info(std::get<1>(GetParam())); }

  CompiledCode compile(const Configuration& configuration) const {
    SCOPED_TRACE(configuration.to_json());
    return cuda_compile(family().instantiate(problem(), configuration, target()), target());
  }
};

TEST_P(CompileTest, DefaultConfigurationKeepsItsSumsInRegisters) {
  const BoundSpace space = bind_space(family(), problem(), target());
  const CompiledCode code = compile(space.configuration(space.default_index()));
  EXPECT_EQ(code.resources.stack_bytes, 0);
  EXPECT_EQ(code.resources.spill_bytes, 0);
}

TEST_P(CompileTest, SampledConfigurationsCompile) {
  const BoundSpace space = bind_space(family(), problem(), target());
  for (const Configuration& configuration : some_configurations(space, 1, 5))
    EXPECT_GT(compile(configuration).image.size(), 0u) << configuration.to_json();
}

INSTANTIATE_TEST_SUITE_P(Sm80, CompileTest,
                         testing::Combine(testing::ValuesIn(kReferenceProblems), testing::Values(80, 89, 90),
                                          testing::Values(+[]() -> const KernelFamily* {
                                            return &cuda_implicit_gemm_family();
                                          })));
INSTANTIATE_TEST_SUITE_P(
    Sm90, CompileTest,
    testing::Combine(testing::Values(kReferenceProblems[1], kReferenceProblems[3], kReferenceProblems[4],
                                     "conv2d n=2 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=f16 | relu",
                                     "conv2d n=2 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 dtype=f16 layout=nhwc"),
                     testing::Values(90), testing::Values(+[]() -> const KernelFamily* {
                       return &cuda_implicit_gemm_sm90_family();
                     })));

// The assembler gives every thread of a block as many registers: wide instructions leave room for fewer
// threads.
TEST(ImplicitGemmCompile, WideInstructionsHaveTheirRegisters) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  const KernelFamily& family = cuda_implicit_gemm_family();
  const Problem problem =
      Problem::parse("conv2d n=32 c=512 h=28 w=28 k=256 r=1 s=1 dtype=f16 layout=nhwc bias | relu");
  const DeviceInfo target = cuda_target_info(90);
  const BoundSpace space = bind_space(family, problem, target);
  std::mt19937_64 random(11);
  int compiled = 0;
  for (const std::uint64_t index : space.sample(std::min<std::uint64_t>(space.size(), 4000), random)) {
    const Configuration configuration = space.configuration(index);
    if (configuration.text("instruction") != "wgmma" || configuration.integer("warp_channels") < 256 ||
        configuration.integer("producer_warps") == 0)
      continue;
    EXPECT_GT(cuda_compile(family.instantiate(problem, configuration, target), target).image.size(), 0u)
        << configuration.to_json();
    if (++compiled == 6) break;
  }
  EXPECT_GT(compiled, 0);
}

}  // namespace
}  // namespace knobwise
