#include "kernels/reference.h"

#include <chrono>
#include <functional>
#include <iostream>
#include <limits>

#include "kernels/cuda/reference_family.h"
#include "tests/cuda/gpu_fixture.h"
#include "tests/cuda/small_problems.h"

namespace knobwise {
namespace {

class ReferenceGpuTest : public GpuTest {
 protected:
  std::unique_ptr<Executable> reference(const Problem& problem) {
    return compile_and_load(cuda_reference_family().instantiate(problem, {}, device().info()));
  }
};

// The host's own float64 computation, for the inputs that `tensors` holds on the device.
std::vector<double> host_reference(Device& device, const Problem& problem, const DeviceTensors& tensors) {
  std::vector<std::vector<char>> memory;
  const auto fetch = [&](const void* source, std::int64_t elements) -> void* {
    memory.emplace_back(static_cast<std::size_t>(elements) * size_of(problem.dtype));
    device.download(memory.back().data(), source, memory.back().size());
    return memory.back().data();
  };
  Buffers host;
  host.input = fetch(tensors.buffers().input, problem.input_extents().elements());
  const std::vector<ParameterSpec> specs = problem.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    host.parameters.push_back(fetch(tensors.buffers().parameters[i], specs[i].elements()));
  }
  std::vector<double> output(static_cast<std::size_t>(problem.output_extents().elements()));
  reference_output(problem, host, output.data(), 0);
  return output;
}

TEST_F(ReferenceGpuTest, AgreesWithTheHostOnEveryKindOfProblem) {
  for (const char* line : kSmallProblems) {
    const Problem problem = Problem::parse(line);
    const auto executable = reference(problem);
    DeviceTensors tensors(device(), problem);
    for (Distribution distribution : kDistributions) {
      tensors.fill(distribution, 7);
      tensors.run(*executable);
      const std::vector<double> expected = host_reference(device(), problem, tensors);
      std::vector<char> raw(expected.size() * size_of(problem.dtype));
      device().download(raw.data(), tensors.buffers().output, raw.size());
      ErrorAccumulator errors;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        errors.add(load_element(raw.data(), problem.dtype, static_cast<std::int64_t>(i)), expected[i]);
      }
      const double rounding = problem.dtype == DType::f32 ? 6e-8 : problem.dtype == DType::f16 ? 5e-4 : 4e-3;
      const ErrorMetrics host = errors.metrics(), on_device = tensors.verify();
      EXPECT_LE(host.rel_fro, rounding) << line << " " << to_string(distribution);
      EXPECT_EQ(host.nans, 0) << line;
      EXPECT_EQ(on_device.checked, host.checked) << line;
      EXPECT_NEAR(on_device.rel_fro, host.rel_fro, 1e-3 * rounding) << line;
      EXPECT_NEAR(on_device.rms, host.rms, 1e-3 * host.rms + 1e-15) << line;
      EXPECT_NEAR(on_device.mean_abs, host.mean_abs, 1e-3 * host.mean_abs + 1e-15) << line;
      EXPECT_NEAR(on_device.max_abs, host.max_abs, 1e-3 * host.max_abs + 1e-15) << line;
      EXPECT_EQ(on_device.frac_outside, host.frac_outside) << line;
    }
  }
}

TEST_F(ReferenceGpuTest, VerificationFindsOneWrongElement) {
  const Problem problem = Problem::parse("conv2d n=3 c=5 h=19 w=17 k=7 r=3 s=3 bias");
  const auto executable = reference(problem);
  DeviceTensors tensors(device(), problem);
  tensors.fill(Distribution::integers, 3);
  tensors.run(*executable);
  EXPECT_EQ(tensors.verify().max_abs, 0);

  float* output = static_cast<float*>(tensors.buffers().output);
  const std::int64_t last = problem.output_extents().elements() - 1;
  float value = 0;
  device().download(&value, output + last, sizeof value);
  const float wrong = value + 1000;
  device().upload(output + last, &wrong, sizeof wrong);
  ErrorMetrics metrics = tensors.verify();
  EXPECT_EQ(metrics.max_abs, 1000);
  EXPECT_EQ(metrics.frac_outside, 1.0 / static_cast<double>(last + 1));

  const float nan = std::numeric_limits<float>::quiet_NaN();
  device().upload(output + last, &nan, sizeof nan);
  metrics = tensors.verify();
  EXPECT_EQ(metrics.nans, 1);
  EXPECT_EQ(metrics.frac_outside, 1.0 / static_cast<double>(last + 1));
  EXPECT_EQ(metrics.max_abs, 0);
}

TEST_F(ReferenceGpuTest, AnOutputThatWasNeverWrittenIsAllNaN) {
  const Problem problem = Problem::parse("conv2d n=3 c=5 h=19 w=17 k=7 r=3 s=3 dtype=f16");
  DeviceTensors tensors(device(), problem);
  tensors.fill(Distribution::uniform, 3);
  const ErrorMetrics metrics = tensors.verify();
  EXPECT_EQ(metrics.nans, problem.output_extents().elements());
  EXPECT_EQ(metrics.frac_outside, 1);
}

// The kept reference must not outlive the content of the inputs, wherever a change comes from.
TEST_F(ReferenceGpuTest, ChangedInputsGetANewReference) {
  const Problem problem = Problem::parse("conv2d n=3 c=5 h=19 w=17 k=7 r=3 s=3 bias");
  const auto executable = reference(problem);
  DeviceTensors tensors(device(), problem);
  for (std::uint64_t seed : {1, 2, 1, 3, 4, 5, 1}) {
    tensors.fill(Distribution::integers, seed);
    tensors.run(*executable);
    EXPECT_EQ(tensors.verify().max_abs, 0) << seed;
  }
  const float changed = 100;
  device().upload(tensors.buffers().parameters[1], &changed, sizeof changed);  // a bias
  EXPECT_GT(tensors.verify().max_abs, 90);
  tensors.run(*executable);
  EXPECT_EQ(tensors.verify().max_abs, 0);
}

// A 1x1 convolution of one channel is a multiplication, so that the host can check an output of several
// chunks.
TEST_F(ReferenceGpuTest, ManySamplesInSeveralChunksAreAllThere) {
  const Problem problem = Problem::parse("conv2d n=70 c=1 h=2048 w=2048 k=1 r=1 s=1");
  const auto executable = reference(problem);
  DeviceTensors tensors(device(), problem);
  tensors.fill(Distribution::integers, 11);
  tensors.run(*executable);
  EXPECT_EQ(tensors.verify().max_abs, 0);
  const OperandFill input = operand_fill(problem, Distribution::integers, 11, -1);
  const double weight = operand_value(operand_fill(problem, Distribution::integers, 11, 0), 0);
  const std::int64_t elements = problem.output_extents().elements();
  std::vector<float> part(4096);
  for (std::int64_t start = 0; start + 4096 <= elements; start += elements / 50 - 17) {
    device().download(part.data(), static_cast<float*>(tensors.buffers().output) + start,
                      part.size() * sizeof(float));
    for (std::int64_t i = 0; i < 4096; ++i)
      ASSERT_EQ(part[i], weight * operand_value(input, start + i)) << start + i;
  }
}

TEST_F(ReferenceGpuTest, MoreThanTwoToThe31ElementsAreAllVerified) {
  const Problem problem = Problem::parse("conv2d n=3 c=1 h=32768 w=32768 k=1 r=1 s=1 dtype=f16");
  if (device().info().free_memory_bytes < (std::int64_t{60} << 30))
    GTEST_SKIP() << "needs 60 GB of device memory";
  const auto executable = reference(problem);
  DeviceTensors tensors(device(), problem);
  tensors.fill(Distribution::integers, 11);
  tensors.run(*executable);
  const ErrorMetrics right = tensors.verify();
  EXPECT_EQ(right.checked, std::int64_t{3} << 30);
  EXPECT_EQ(right.max_abs, 0);
  const unsigned short wrong = 0x5640;  // 100 in fp16
  device().upload(static_cast<unsigned short*>(tensors.buffers().output) + right.checked - 1, &wrong,
                  sizeof wrong);
  EXPECT_GT(tensors.verify().max_abs, 80);
}

double seconds_of(const std::function<void()>& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Hundreds of candidates of one problem are verified: each must cost less than its compilation.
TEST_F(ReferenceGpuTest, VerifyingTheLargestReferenceProblemIsQuick) {
  const Problem problem = Problem::parse("conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7");
  const auto executable = reference(problem);
  DeviceTensors tensors(device(), problem);
  double first = 0, again = 0;
  for (Distribution distribution : kDistributions) {
    tensors.fill(distribution, 5);
    tensors.run(*executable);
    first = seconds_of([&] { EXPECT_LE(tensors.verify().rel_fro, 6e-8); });
    again = seconds_of([&] { EXPECT_LE(tensors.verify().rel_fro, 6e-8); });
  }
  const double run_us = device().time(*executable, tensors.buffers(), TimingOptions{}).median_us;
  std::cout << "verification with a new reference " << 1e3 * first << " ms, with a kept one " << 1e3 * again
            << " ms; the reference alone " << run_us / 1e3 << " ms\n";
  EXPECT_LT(first, 0.5);
  EXPECT_LT(again, 0.1);
}

}  // namespace
}  // namespace knobwise
