#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

class CompileTest : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  void SetUp() override {
    if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
    if (const auto reason = cuda_implicit_gemm_family().unsupported_reason(problem(), target()))
      GTEST_SKIP() << *reason;
  }

  Problem problem() const { return Problem::parse(std::get<0>(GetParam())); }
  DeviceInfo target() const { return cuda_target_info(std::get<1>(GetParam())); }

  CompiledCode compile(const Configuration& configuration) const {
    SCOPED_TRACE(configuration.to_json());
    return cuda_compile(cuda_implicit_gemm_family().instantiate(problem(), configuration, target()),
                        target());
  }
};

TEST_P(CompileTest, DefaultConfigurationKeepsItsSumsInRegisters) {
  const BoundSpace space = bind_space(cuda_implicit_gemm_family(), problem(), target());
  const CompiledCode code = compile(space.configuration(space.default_index()));
  EXPECT_EQ(code.resources.stack_bytes, 0);
  EXPECT_EQ(code.resources.spill_bytes, 0);
}

TEST_P(CompileTest, SampledConfigurationsCompile) {
  const BoundSpace space = bind_space(cuda_implicit_gemm_family(), problem(), target());
  for (const Configuration& configuration : some_configurations(space, 1, 5))
    EXPECT_GT(compile(configuration).image.size(), 0u) << configuration.to_json();
}

INSTANTIATE_TEST_SUITE_P(Architectures, CompileTest,
                         testing::Combine(testing::ValuesIn(kReferenceProblems),
                                          testing::Values(80, 89, 90)));

}  // namespace
}  // namespace knobwise
