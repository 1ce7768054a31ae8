#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "search_spaces/user_error.h"
#include "tests/cuda/gpu_fixture.h"

namespace knobwise {
namespace {

using testing::HasSubstr;

class DeviceGpuTest : public GpuTest {};

TEST_F(DeviceGpuTest, DescribesItself) {
  const DeviceInfo& info = device().info();
  EXPECT_EQ(info.backend, Backend::cuda);
  EXPECT_GE(info.compute_capability, 70);
  EXPECT_EQ(info.architecture, "sm_" + std::to_string(info.compute_capability));
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_GT(info.free_memory_bytes, 0);
  EXPECT_GT(info.l2_bytes, 0);
  EXPECT_THAT(info.driver_version, HasSubstr("."));
}

TEST_F(DeviceGpuTest, RefusesAnOrdinalThatIsNotThere) {
  try {
    open_cuda_device(1000);
    FAIL() << "opened";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cuda:1000"));
  }
}

TEST_F(DeviceGpuTest, AllocationBeyondTheMemoryNamesWantedAndFree) {
  try {
    device().allocate(std::size_t{1} << 50, "the input");
    FAIL() << "allocated";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the input needs 1125899.91 GB"));
    EXPECT_THAT(error.what(), HasSubstr("free"));
  }
}

TEST_F(DeviceGpuTest, FillsTheSameBitsAsTheHost) {
  const Problem problem = Problem::parse(
      "conv2d n=2 c=6 h=40 w=41 k=5 r=3 s=3 bias | group_norm groups=5 eps=1e-5 affine | residual");
  const std::int64_t elements = 200003;
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (Distribution distribution : kDistributions) {
      for (int parameter = -1; parameter < static_cast<int>(problem.parameters().size()); ++parameter) {
        const OperandFill fill = operand_fill(problem, distribution, 42, parameter);
        std::vector<char> host(elements * size_of(dtype)), back(host.size());
        fill_host(host.data(), dtype, elements, fill);
        const auto buffer = device().allocate(host.size(), "operand");
        device().fill_operand(buffer->data(), dtype, elements, fill);
        device().download(back.data(), buffer->data(), back.size());
        EXPECT_EQ(std::memcmp(host.data(), back.data(), host.size()), 0)
            << to_string(dtype) << " " << to_string(distribution) << " parameter " << parameter;
      }
    }
  }
}

TEST_F(DeviceGpuTest, TooMuchSharedMemoryIsRefusedBeforeTheLaunch) {
  const KernelInstance instance =
      one_kernel("extern \"C\" __global__ void f(float* out) { extern __shared__ float s[]; out[0] = s[1]; }",
                 "f", 32, 1 << 20);
  EXPECT_EQ(trial_status([&] { compile_and_load(instance); }), "out_of_resources");
}

TEST_F(DeviceGpuTest, TooManyThreadsAreRefusedBeforeTheLaunch) {
  const KernelInstance instance = one_kernel(
      "extern \"C\" __global__ void __launch_bounds__(64) f(float* out) { out[threadIdx.x] = 1; }", "f", 128);
  EXPECT_EQ(trial_status([&] { compile_and_load(instance); }), "out_of_resources");
}

TEST_F(DeviceGpuTest, UsesSharedMemoryBeyond48KilobytesAndReportsResources) {
  const std::string source = R"(
    extern "C" __global__ void f(float* out) {
      extern __shared__ float s[];
      for (int i = threadIdx.x; i < 24000; i += 128) s[i] = static_cast<float>(i);
      __syncthreads();
      out[threadIdx.x] = s[23999 - threadIdx.x];
    })";
  const auto executable = compile_and_load(one_kernel(source, "f", 128, 96000));
  EXPECT_EQ(executable->resources().dynamic_shared_bytes, 96000);
  EXPECT_GT(executable->resources().registers, 0);
  EXPECT_GT(executable->resources().occupancy, 0);
  EXPECT_LE(executable->resources().occupancy, 1);
  EXPECT_GT(executable->resources().waves, 0);
  EXPECT_LT(executable->resources().waves, 1) << "one block";
  const auto output = device().allocate(128 * sizeof(float), "output");
  Buffers buffers;
  buffers.output = output->data();
  executable->run(buffers, nullptr);
  device().synchronize();
  std::vector<float> values(128);
  device().download(values.data(), output->data(), output->bytes());
  EXPECT_EQ(values[0], 23999);
  EXPECT_EQ(values[127], 23999 - 127);
}

TEST_F(DeviceGpuTest, TimesWithinTheLimitsAsked) {
  const std::string source = R"(
    extern "C" __global__ void f(long long* out) {
      const long long start = clock64();
      while (clock64() - start < 200000) {}
      out[threadIdx.x] = start;
    })";
  const auto executable = compile_and_load(one_kernel(source, "f", 32));
  const auto output = device().allocate(256, "output");
  Buffers buffers;
  buffers.output = output->data();

  TimingOptions options;
  options.min_samples = 7;
  options.max_samples = 7;
  const Timing timing = device().time(*executable, buffers, options);
  EXPECT_EQ(timing.samples_us.size(), 7u);
  EXPECT_FALSE(timing.abandoned);
  EXPECT_GT(timing.min_us, 50);  // 200,000 cycles at no more than 4 GHz
  EXPECT_LT(timing.median_us, 2000);
  EXPECT_EQ(timing.summary_us, timing.median_us);

  options.abandon_above_us = 1;
  const Timing abandoned = device().time(*executable, buffers, options);
  EXPECT_TRUE(abandoned.abandoned);
  EXPECT_EQ(abandoned.samples_us.size(), 1u);

  options.abandon_above_us = 0;
  options.max_seconds = 1e-9;
  EXPECT_EQ(device().time(*executable, buffers, options).samples_us.size(), 1u);
}

TEST_F(DeviceGpuTest, ReadsItsSensors) {
  const DeviceState state = device().state();
  if (!state.clock_khz || !state.temperature_c) GTEST_SKIP() << "no libnvidia-ml.so.1, or it refuses";
  EXPECT_GT(*state.clock_khz, 100'000);
  EXPECT_LT(*state.clock_khz, 5'000'000);
  EXPECT_GT(*state.temperature_c, 5);
  EXPECT_LT(*state.temperature_c, 120);
}

// A kernel that reads 8 MB: from the L2 it would take a fraction of what it takes from memory.
TEST_F(DeviceGpuTest, FlushesTheCacheBeforeEverySample) {
  KernelInstance instance = one_kernel(R"(
    extern "C" __global__ void f(float4* data) {
      float sum = 0;
      for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 524288; i += gridDim.x * blockDim.x) sum += data[i].x;
      if (sum == 12345.0f) data[0].y = sum;
    })",
                                       "f", 256);
  instance.run[0].grid[0] = 512;
  const std::size_t bytes = 8 << 20;
  const auto data = device().allocate(bytes, "data");
  device().fill_bytes(data->data(), 0, bytes);
  Buffers buffers;
  buffers.output = data->data();
  const auto once = compile_and_load(instance);
  instance.run.push_back(instance.run[0]);
  const auto twice = compile_and_load(instance);
  TimingOptions options;
  options.min_samples = options.max_samples = 31;
  const double cold = device().time(*once, buffers, options).median_us;
  const double cold_and_warm = device().time(*twice, buffers, options).median_us;
  std::cout << "8 MB read from memory in " << cold << " us, then again from the cache: " << cold_and_warm
            << " us together\n";
  EXPECT_LT(cold_and_warm, 1.9 * cold);
  EXPECT_GT(cold_and_warm, cold);
}

TEST_F(DeviceGpuTest, CodeForAnotherArchitectureDoesNotLoad) {
  const DeviceInfo other = cuda_target_info(device().info().compute_capability == 80 ? 90 : 80);
  const KernelInstance instance =
      one_kernel("extern \"C\" __global__ void f(float* out) { out[0] = 1; }", "f", 32);
  const CompiledCode code = cuda_compile(instance, other);
  if (other.compute_capability / 10 == device().info().compute_capability / 10) GTEST_SKIP() << "compatible";
  EXPECT_EQ(trial_status([&] { device().load(instance, code); }), "load_failed");
}

// Runs in a process of its own, because the fault takes the context of the whole process with it.
void fault_and_exit() {
  const auto device = open_cuda_device(0);
  const KernelInstance instance = one_kernel(
      "extern \"C\" __global__ void f(float* out) { *reinterpret_cast<float*>(16) = 1; }", "f", 32);
  const auto executable = device->load(instance, cuda_compile(instance, device->info()));
  const auto output = device->allocate(256, "output");
  Buffers buffers;
  buffers.output = output->data();
  const std::string first = trial_status([&] {
    executable->run(buffers, nullptr);
    device->synchronize();
  });
  const std::string later = trial_status([&] { device->fill_bytes(output->data(), 0, 256); });
  std::exit(first == "crashed" && later == "crashed" ? 0 : 1);
}

TEST_F(DeviceGpuTest, AFaultIsReportedAndTheDeviceStaysRefusedInThisProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(fault_and_exit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace knobwise
