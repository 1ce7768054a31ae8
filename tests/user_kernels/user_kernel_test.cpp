#include "kernels/user/user_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "tests/user_kernels/files.h"

namespace knobwise::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class UserKernelFile : public testing::Test {
 protected:
  void SetUp() override { folder_.write("double.cpp", std::string(kDoubleSource)); }

  std::unique_ptr<UserKernel> load(const json& file, std::optional<ProblemSize> size = {}) {
    return UserKernel::load(folder_.write("my.T1.json", file), size);
  }
  std::string error(const json& file) {
    try {
      load(file);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }
  // The error of the file with one member of its KernelSpecification replaced.
  std::string error_with(const json& patch) {
    json file = double_kernel();
    file["KernelSpecification"].merge_patch(patch);
    return error(file);
  }

  KernelFolder folder_;
};

TEST_F(UserKernelFile, HasOneProblemWithItsNameAndSize) {
  const auto kernel = load(double_kernel());
  EXPECT_EQ(kernel->problem().to_string(), "user:double_it size=1000");
  EXPECT_EQ(kernel->name(), "user:double_it");
  EXPECT_EQ(kernel->backend(), Backend::cpu);
  EXPECT_FALSE(kernel->unsupported_reason(kernel->problem(), {}));
  EXPECT_TRUE(kernel->unsupported_reason(Problem::parse("user:double_it size=1001"), {}));
  EXPECT_TRUE(kernel->unsupported_reason(Problem::parse("conv1d n=1 c=1 w=9 k=1 s=1"), {}));
}

TEST_F(UserKernelFile, TakesAnotherProblemSize) {
  const auto kernel = load(double_kernel(), ProblemSize{500, 2});
  EXPECT_EQ(kernel->problem().to_string(), "user:double_it size=500x2");
  EXPECT_EQ(kernel->arguments()[0].elements, 500);
  EXPECT_EQ(kernel->source_hash(), load(double_kernel())->source_hash());
}

TEST_F(UserKernelFile, ReadsArguments) {
  const auto kernel = load(double_kernel());
  ASSERT_EQ(kernel->arguments().size(), 3u);
  const UserArgument &y = kernel->arguments()[0], &x = kernel->arguments()[1], &n = kernel->arguments()[2];
  EXPECT_TRUE(y.output && y.overwrites && y.writable);
  EXPECT_FALSE(x.output || x.overwrites || x.writable);
  EXPECT_EQ(x.bytes(), 4000u);
  EXPECT_EQ(x.fill.kind, ArgumentFill::Kind::random);
  EXPECT_EQ(n.memory, UserArgument::Memory::scalar);
}

TEST_F(UserKernelFile, SizesMayUseKnobsAsKernelTunerDoes) {
  json file = double_kernel();
  file["KernelSpecification"]["Arguments"][1]["Size"] = "ProblemSize[0] + max(piece) - 1 + max(variant)";
  EXPECT_EQ(load(file)->arguments()[1].elements, 1000 + 256 - 1);
}

TEST_F(UserKernelFile, WithoutMarksWhatIsWrittenIsTheOutput) {
  json file = double_kernel();
  file["KernelSpecification"]["Arguments"][0].erase("Output");
  EXPECT_TRUE(load(file)->arguments()[0].output);
  EXPECT_FALSE(load(file)->arguments()[1].output);
}

TEST_F(UserKernelFile, AnotherValueOfAKnobMakesNothingStaleButAnotherSourceDoes) {
  const std::string hash = load(double_kernel())->source_hash();
  json file = double_kernel();
  file["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[32, 64, 128, 256]";
  EXPECT_EQ(load(file)->source_hash(), hash);
  file["KernelSpecification"]["CompilerOptions"] = {"-DX"};
  EXPECT_NE(load(file)->source_hash(), hash);
  folder_.write("double.cpp", std::string("#include \"h.h\"\n") + kDoubleSource);
  folder_.write("h.h", std::string("// 1\n"));
  const std::string with_header = load(double_kernel())->source_hash();
  EXPECT_NE(with_header, hash);
  folder_.write("h.h", std::string("// 2\n"));
  EXPECT_NE(load(double_kernel())->source_hash(), with_header);
}

TEST_F(UserKernelFile, FillsByEveryRule) {
  const ElementType type = ElementType::parse("float", 0, "test");
  const auto filled = [&](const json& argument) {
    std::vector<float> data(5, -1);
    ArgumentFill::parse(argument, folder_.path(), "test").fill(data.data(), type, 5, 7);
    return data;
  };
  EXPECT_THAT(filled({{"FillType", "Constant"}, {"FillValue", 2.5}}), ElementsAre(2.5, 2.5, 2.5, 2.5, 2.5));
  EXPECT_THAT(filled({{"FillValue", 1}}), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(filled({{"FillType", "Generator"}, {"DataSource", "2 * i + 3"}}), ElementsAre(3, 5, 7, 9, 11));
  EXPECT_THAT(filled({{"FillType", "Random"}, {"FillValue", 20.0}}),
              testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(20))));
  EXPECT_NE(filled({{"FillType", "Random"}}), filled({{"FillType", "Random"}, {"RandomSeed", 8}}));
  EXPECT_THAT(filled(json::object()), testing::Each(-1));

  const float content[] = {1, 2, 3, 4, 5};
  folder_.write("data.bin", std::string(reinterpret_cast<const char*>(content), sizeof content));
  EXPECT_THAT(filled({{"FillType", "BinaryRaw"}, {"DataSource", "data.bin"}}), ElementsAre(1, 2, 3, 4, 5));
  folder_.write("data.bin", std::string(19, 'x'));
  EXPECT_THROW(filled({{"FillType", "BinaryRaw"}, {"DataSource", "data.bin"}}), UserError);
  folder_.write("data.bin", std::string(21, 'x'));
  EXPECT_THROW(filled({{"FillType", "BinaryRaw"}, {"DataSource", "data.bin"}}), UserError);
}

TEST_F(UserKernelFile, EveryMistakeNamesFileAndPlace) {
  json space = double_kernel();
  space.erase("KernelSpecification");
  EXPECT_THAT(error(space), HasSubstr("my.T1.json: it has no KernelSpecification"));
  EXPECT_THAT(error_with({{"Language", nullptr}}),
              HasSubstr("my.T1.json: it has no Language; use CUDA or C++"));
  EXPECT_THAT(error_with({{"Language", "OpenCL"}}), HasSubstr("Language OpenCL is not supported"));
  EXPECT_THAT(error_with({{"KernelName", nullptr}}), HasSubstr("it has no KernelName"));
  EXPECT_THAT(error_with({{"KernelFile", nullptr}}), HasSubstr("it has no KernelFile"));
  EXPECT_THAT(error_with({{"KernelFile", "no.cpp"}}),
              HasSubstr("my.T1.json: KernelFile no.cpp: cannot be read"));
  EXPECT_THAT(error_with({{"Arguments", nullptr}}), HasSubstr("it has no list of Arguments"));
  EXPECT_THAT(error_with({{"Arguments", json::array()}}), HasSubstr("no argument is an output"));
  EXPECT_THAT(error_with({{"CompilerOptions", "-O3"}}), HasSubstr("CompilerOptions is not a list"));
  EXPECT_THAT(error_with({{"ProblemSize", {1, 2, 3, 4}}}), HasSubstr("more than three dimensions"));
  EXPECT_THAT(error_with({{"ProblemSize", {0}}}), HasSubstr("ProblemSize: 0 is too small"));
  EXPECT_THAT(error_with({{"ReferenceArguments", {{{"TargetName", "z"}, {"FillType", "Constant"}}}}}),
              HasSubstr("no array has the TargetName `z`"));
  EXPECT_THAT(error_with({{"ReferenceKernel", {{"KernelFile", "no.cpp"}}}}),
              HasSubstr("no.cpp: cannot be read"));

  const auto argument_error = [&](const json& patch) {
    json file = double_kernel();
    file["KernelSpecification"]["Arguments"][1].merge_patch(patch);
    return error(file);
  };
  EXPECT_THAT(argument_error({{"Type", "flaot"}}), HasSubstr("my.T1.json: argument x: unknown Type `flaot`"));
  EXPECT_THAT(argument_error({{"Size", nullptr}}), HasSubstr("argument x: it has no Size"));
  EXPECT_THAT(argument_error({{"Size", "ProblemSize[1]"}}), HasSubstr("argument x: Size:"));
  EXPECT_THAT(argument_error({{"Size", 0}}), HasSubstr("Size is 0"));
  EXPECT_THAT(argument_error({{"FillType", "Script"}}), HasSubstr("FillType Script is not supported"));
  EXPECT_THAT(argument_error({{"FillType", "Generator"}, {"DataSource", "2 +"}}),
              HasSubstr("argument x: DataSource"));
  EXPECT_THAT(argument_error({{"MemoryType", "Local"}}), HasSubstr("MemoryType Local is not supported"));
  EXPECT_THAT(argument_error({{"MemoryType", "Symbol"}}), HasSubstr("constant memory is for CUDA"));
}

TEST_F(UserKernelFile, RunsOnTheProcessor) {
  const auto kernel = load(double_kernel());
  const auto device = open_device("cpu");
  const Configuration configuration({{"piece", std::int64_t{64}}, {"variant", std::int64_t{0}}});
  const KernelInstance instance = kernel->instantiate(kernel->problem(), configuration, device->info());
  EXPECT_EQ(instance.run.at(0).grid[0], 16u);
  const auto executable = device->load(instance, compile(instance, device->info()));
  std::vector<float> x(1000), y(1000);
  for (int i = 0; i < 1000; ++i) x[i] = static_cast<float>(i);
  Buffers buffers;
  buffers.parameters = {y.data(), x.data()};
  executable->run(buffers, nullptr);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(y[i], 2.0f * static_cast<float>(i));
}

TEST_F(UserKernelFile, KnobsOfEveryTypeReachTheSource) {
  json file = double_kernel();
  file["ConfigurationSpace"]["TuningParameters"] = json::parse(R"([
    {"Name": "piece", "Type": "int", "Values": "[100]"}, {"Name": "variant", "Type": "int", "Values": "[0]"},
    {"Name": "flag", "Type": "bool", "Values": "[True]"}, {"Name": "factor", "Type": "float", "Values": "[0.5]"},
    {"Name": "number", "Type": "string", "Values": ["float"]}])");
  folder_.write("double.cpp", std::string(R"(
    static_assert(piece == 100 && flag && factor == 0.5 && KW_PROBLEM_SIZE_X == 1000 && KW_PROBLEM_SIZE_Y == 1);
    void double_all(number* y, const number* x, int n) {})"));
  const auto kernel = load(file);
  const DeviceInfo info = cpu_device_info();
  const BoundSpace space = bind_space(*kernel, kernel->problem(), info);
  const KernelInstance instance = kernel->instantiate(kernel->problem(), space.configuration(0), info);
  EXPECT_NO_THROW(compile(instance, info));
}

TEST_F(UserKernelFile, ALaunchThatCannotBeIsATrialNotAnError) {
  json file = double_kernel();
  file["KernelSpecification"]["GridDivX"] = {"piece - 64"};
  const auto kernel = load(file);
  const Configuration configuration({{"piece", std::int64_t{64}}, {"variant", std::int64_t{0}}});
  try {
    kernel->instantiate(kernel->problem(), configuration, cpu_device_info());
    FAIL();
  } catch (const TrialError& error) {
    EXPECT_EQ(error.status(), "invalid");
    EXPECT_THAT(error.what(), HasSubstr("GridDivX"));
  }
}

// Every configuration of the example, and kernels with scalars, constant memory and templates beside them.
class CudaKernel : public UserKernelFile, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  }
};

TEST_P(CudaKernel, TheExampleCompiles) {
  const auto kernel = UserKernel::load("examples/transpose/transpose.cu.T1.json", {});
  const DeviceInfo target = cuda_target_info(GetParam());
  const BoundSpace space = bind_space(*kernel, kernel->problem(), target);
  ASSERT_GT(space.size(), 10u);
  for (std::uint64_t i = 0; i < space.size(); ++i) {
    const Configuration configuration = space.configuration(i);
    const KernelInstance instance = kernel->instantiate(kernel->problem(), configuration, target);
    EXPECT_EQ(instance.run[0].block[0] * instance.run[0].block[1],
              configuration.integer("tile") * configuration.integer("block_y"));
    EXPECT_EQ(cuda_compile(instance, target).resources.spill_bytes, 0) << configuration.to_json();
  }
  EXPECT_GT(cuda_compile(kernel->reference_instance(target), target).resources.registers, 0);
}

TEST_P(CudaKernel, ScalarsConstantsAndOptionsArePassedOn) {
  json file = json::parse(R"({
    "ConfigurationSpace": {"TuningParameters": [{"Name": "block_size_x", "Type": "int", "Values": "[64]"}]},
    "KernelSpecification": {
      "Language": "CUDA", "CompilerOptions": ["-std=c++14", "", "-DSHIFT=1"], "KernelName": "filtered",
      "KernelFile": "filter.cu", "GlobalSizeType": "OpenCL", "GlobalSize": {"X": "1000"},
      "LocalSize": {"X": "block_size_x"}, "SharedMemory": "block_size_x * 4",
      "Arguments": [
        {"Name": "y", "Type": "float", "MemoryType": "Vector", "AccessType": "WriteOnly", "Size": 1000},
        {"Name": "factor", "Type": "double", "MemoryType": "Scalar", "FillValue": 0.5},
        {"Name": "d_filter", "Type": "float", "MemoryType": "Vector", "MemType": "Constant", "Size": 3},
        {"Name": "d_bias", "Type": "float", "MemoryType": "Symbol", "Size": 1}]}})");
  folder_.write("filter.cu", std::string(R"(
    template <class T> __device__ T shifted(T x) { return x + SHIFT; }
    __constant__ float d_filter[3];
    __constant__ float d_bias[1];
    __global__ void filtered(float* y, double factor, const float* filter) {
      extern __shared__ float s[];
      s[threadIdx.x] = filter[0] + d_filter[1];
      const int i = blockIdx.x * block_size_x + threadIdx.x;
      if (i < 1000) y[i] = shifted(s[threadIdx.x]) * factor + d_bias[0];
    })"));
  const auto kernel = load(file);
  EXPECT_EQ(kernel->problem().to_string(), "user:filtered");
  const DeviceInfo target = cuda_target_info(GetParam());
  const BoundSpace space = bind_space(*kernel, kernel->problem(), target);
  const KernelInstance instance = kernel->instantiate(kernel->problem(), space.configuration(0), target);
  const KernelLaunch& launch = instance.run.at(0);
  EXPECT_EQ(launch.grid[0], 16u);
  EXPECT_EQ(launch.block[0], 64u);
  EXPECT_EQ(launch.dynamic_shared_bytes, 256u);
  EXPECT_THAT(launch.arguments, ElementsAre(BufferRef{Slot::parameter, 0}, BufferRef{Slot::scalar, 0},
                                            BufferRef{Slot::parameter, 1}));
  double factor = 0;
  ASSERT_EQ(launch.scalars.at(0).size(), sizeof factor);
  std::memcpy(&factor, launch.scalars[0].data(), sizeof factor);
  EXPECT_EQ(factor, 0.5);
  ASSERT_EQ(instance.constants.size(), 2u);
  EXPECT_EQ(instance.constants[0].name, "d_filter");
  EXPECT_FALSE(instance.constants[0].required);
  EXPECT_TRUE(instance.constants[1].required);
  EXPECT_GT(cuda_compile(instance, target).resources.registers, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernel, testing::Values(80, 89, 90));

}  // namespace
}  // namespace knobwise::test
