#include <gmock/gmock.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/cuda/reference_family.h"
#include "kernels/problem.h"
#include "tests/cuda/small_problems.h"

namespace knobwise {
namespace {

using testing::HasSubstr;

class CompileTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  }
};

KernelInstance instance_of(const std::string& source) {
  KernelInstance instance;
  instance.source = source;
  instance.run = {KernelLaunch{"f", {1, 1, 1}, {32, 1, 1}, 512, {}}};
  return instance;
}

TEST_P(CompileTest, ReportsResourcesAndCode) {
  const CompiledCode code = cuda_compile(instance_of(R"(
      extern "C" __global__ void f(float* out) {
        __shared__ float s[100];
        s[threadIdx.x] = out[threadIdx.x];
        __syncthreads();
        out[threadIdx.x] = s[31 - threadIdx.x];
      })"),
                                         cuda_target_info(GetParam()));
  EXPECT_EQ(code.image.substr(1, 3), "ELF");
  EXPECT_GT(code.resources.registers, 0);
  EXPECT_EQ(code.resources.spill_bytes, 0);
  EXPECT_EQ(code.resources.stack_bytes, 0);
  EXPECT_GE(code.resources.static_shared_bytes, 400);
  EXPECT_EQ(code.resources.dynamic_shared_bytes, 512);
  EXPECT_EQ(code.resources.binary_bytes, static_cast<std::int64_t>(code.image.size()));
  EXPECT_GT(code.seconds, 0);
}

// NVRTC may answer from its disk cache, which holds no report.
TEST_P(CompileTest, ReportsTheSameAgain) {
  const KernelInstance instance =
      instance_of("extern \"C\" __global__ void f(float* out) { out[threadIdx.x] *= 3; }");
  const DeviceInfo target = cuda_target_info(GetParam());
  const CompiledCode first = cuda_compile(instance, target), again = cuda_compile(instance, target);
  EXPECT_GT(first.resources.registers, 0);
  EXPECT_EQ(again.resources.registers, first.resources.registers);
  EXPECT_EQ(again.image, first.image);
}

TEST_P(CompileTest, ShowsTheStackFrameOfAnArrayThatIsIndexedAtRunTime) {
  const CompiledCode code = cuda_compile(instance_of(R"(
      extern "C" __global__ void f(float* out, int n) {
        float a[64];
        for (int i = 0; i < 64; ++i) a[i] = out[i * threadIdx.x];
        float sum = 0;
        for (int i = 0; i < n; ++i) sum += a[i];
        out[threadIdx.x] = sum;
      })"),
                                         cuda_target_info(GetParam()));
  EXPECT_GE(code.resources.stack_bytes, 256);
}

TEST_P(CompileTest, AnErrorIsATrialThatFailedWithItsFirstLine) {
  try {
    cuda_compile(instance_of("\nextern \"C\" __global__ void f() { nonsense(); }\n"),
                 cuda_target_info(GetParam()));
    FAIL() << "compiled";
  } catch (const TrialError& error) {
    EXPECT_EQ(error.status(), "compile_failed");
    EXPECT_THAT(error.what(), HasSubstr("nonsense"));
    EXPECT_THAT(error.what(), HasSubstr("(2)"));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
  }
}

TEST_P(CompileTest, ALaunchOfAKernelThatIsNotThereFails) {
  EXPECT_THROW(cuda_compile(instance_of("extern \"C\" __global__ void g() {}"), cuda_target_info(GetParam())),
               TrialError);
}

TEST_P(CompileTest, TheReferenceCompilesForTheReferenceProblems) {
  for (const char* line : kReferenceProblems) {
    const Problem problem = Problem::parse(line);
    const DeviceInfo target = cuda_target_info(GetParam());
    const CompiledCode code = cuda_compile(cuda_reference_family().instantiate(problem, {}, target), target);
    EXPECT_EQ(code.resources.stack_bytes, 0) << line;
    EXPECT_EQ(code.resources.spill_bytes, 0) << line;
    EXPECT_LE(code.resources.static_shared_bytes, 48 * 1024) << line;
  }
}

TEST(CompileReference, CompilesForEveryFeature) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  const DeviceInfo target = cuda_target_info(80);
  for (const char* line : kSmallProblems) {
    const KernelInstance instance = cuda_reference_family().instantiate(Problem::parse(line), {}, target);
    EXPECT_EQ(cuda_compile(instance, target).resources.stack_bytes, 0) << line;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, CompileTest, testing::Values(80, 89, 90),
                         [](const auto& info) { return "sm_" + std::to_string(info.param); });

}  // namespace
}  // namespace knobwise
