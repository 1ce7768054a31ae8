// A user's CUDA kernel, tuned on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/user_kernels/executable.h"
// After the executable that it runs.
#include "tests/tuner/command.h"
#include "tests/user_kernels/files.h"

namespace knobwise::test {
namespace {

using nlohmann::json;

class GpuTuning : public testing::Test {
 protected:
  void SetUp() override {
    if (knobwise({"devices"}, output_).out.find("cuda:0") == std::string::npos)
      GTEST_SKIP() << "no CUDA device";
  }
  json tune(const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"tune",   "--kernel", file,   "--device",
                                       "cuda:0", "--json",   "--db", output_ / "gpu.db"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = knobwise(arguments, output_);
    EXPECT_EQ(result.status, 0) << result.err;
    std::cout << result.err << result.out;
    return json::parse(result.out, nullptr, false);
  }

  TemporaryFolder output_;
  KernelFolder files_;
};

TEST_F(GpuTuning, TheExample) {
  const json result = tune("examples/transpose/transpose.cu.T1.json", {"--strategy", "exhaustive"});
  EXPECT_GT(result.at("evaluated"), 10);
  EXPECT_EQ(result.at("failed"), 0);
}

TEST_F(GpuTuning, EdgesOfAnOddProblem) {
  const json result = tune("examples/transpose/transpose.cu.T1.json",
                           {"--problem-size", "1001x333", "--strategy", "exhaustive"});
  EXPECT_EQ(result.at("failed"), 0);
}

// Constant memory, by MemType (also a pointer) and by Symbol, scalars of two types and shared memory.
TEST_F(GpuTuning, ConstantMemoryAndScalars) {
  files_.write("filter.cu", std::string(R"(
    __constant__ float d_filter[3];
    __constant__ float d_bias[1];
    __global__ void filtered(float* y, double factor, const float* filter, int n) {
      extern __shared__ float s[];
      s[threadIdx.x] = wrong ? 0 : filter[0] + d_filter[1] + d_filter[2];
      const int i = blockIdx.x * block_size_x + threadIdx.x;
      if (i < n) y[i] = s[threadIdx.x] * factor + d_bias[0] + i;
    })"));
  const std::string file = files_.write("filter.T1.json", json::parse(R"({
    "ConfigurationSpace": {"TuningParameters": [
      {"Name": "block_size_x", "Type": "int", "Values": "[64, 128]"},
      {"Name": "wrong", "Type": "int", "Values": "[0, 1]", "Default": 0}]},
    "KernelSpecification": {
      "Language": "CUDA", "CompilerOptions": ["-std=c++14"], "KernelName": "filtered", "KernelFile": "filter.cu",
      "GlobalSizeType": "OpenCL", "GlobalSize": {"X": "1000"}, "LocalSize": {"X": "block_size_x"},
      "SharedMemory": "block_size_x * 4",
      "Arguments": [
        {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": 1000},
        {"Name": "factor", "Type": "double", "MemoryType": "Scalar", "FillValue": 0.5},
        {"Name": "d_filter", "Type": "float", "MemoryType": "Vector", "MemType": "Constant", "Size": 3,
         "FillType": "Generator", "DataSource": "1000 + 1000 * i"},
        {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
        {"Name": "d_bias", "Type": "float", "MemoryType": "Symbol", "Size": 1, "FillValue": 7}],
      "ReferenceArguments": [
        {"Name": "expected", "TargetName": "y", "FillType": "Generator", "DataSource": "3007 + i"}]}})"));
  const json result = tune(file, {"--strategy", "exhaustive"});
  EXPECT_EQ(result.at("evaluated"), 4);
  EXPECT_EQ(result.at("failed"), 2) << "the wrong ones";
}

}  // namespace
}  // namespace knobwise::test
