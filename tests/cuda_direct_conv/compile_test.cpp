#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {
namespace {

class CompileTest : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  }

  Problem problem() const { return Problem::parse(std::get<0>(GetParam())); }
  DeviceInfo target() const { return cuda_target_info(std::get<1>(GetParam())); }

  CompiledCode compile(const Configuration& configuration) const {
    SCOPED_TRACE(configuration.to_json());
    return cuda_compile(cuda_direct_conv_family().instantiate(problem(), configuration, target()), target());
  }
};

TEST_P(CompileTest, DefaultConfigurationKeepsItsSumsInRegisters) {
  const BoundSpace space = bind_space(cuda_direct_conv_family(), problem(), target());
  const CompiledCode code = compile(space.configuration(space.default_index()));
  EXPECT_EQ(code.resources.stack_bytes, 0);
  EXPECT_EQ(code.resources.spill_bytes, 0);
}

TEST_P(CompileTest, SampledConfigurationsCompile) {
  const BoundSpace space = bind_space(cuda_direct_conv_family(), problem(), target());
  for (const Configuration& configuration : some_configurations(space, 1, 5))
    EXPECT_GT(compile(configuration).image.size(), 0u) << configuration.to_json();
}

TEST(LargeFilterTest, CompilesWithWeightsThatAreNotStaged) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  const Problem problem = Problem::parse("conv3d n=1 c=8 d=12 h=12 w=12 k=128 t=7 r=7 s=7");
  const DeviceInfo target = cuda_target_info(90);
  const Configuration configuration = Configuration::from_json(
      R"({"vector_width":4,"pixels_w":4,"pixels_h":1,"pixels_d":1,"channels_per_thread":8,"channels_per_block":128,)"
      R"("tile_w":8,"tile_h":1,"tile_d":1,"copy_width":4,"input_channels_per_step":1,"stages":1,"tiles_per_block":1,)"
      R"("weights_source":"global","min_blocks":8,"unroll_rows":1,"grid_order":"channels_first","norm_mode":"none",)"
      R"("precision":"fp32"})");
  ASSERT_FALSE(bind_space(cuda_direct_conv_family(), problem, target).violation(configuration));
  EXPECT_GT(cuda_compile(cuda_direct_conv_family().instantiate(problem, configuration, target), target)
                .image.size(),
            0u);
}

INSTANTIATE_TEST_SUITE_P(Architectures, CompileTest,
                         testing::Combine(testing::ValuesIn(kReferenceProblems),
                                          testing::Values(80, 89, 90)));

}  // namespace
}  // namespace knobwise
