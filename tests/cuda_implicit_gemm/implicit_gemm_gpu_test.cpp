#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "kernels/cuda/implicit_gemm_family.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "tests/configurations_option.h"
#include "tests/cuda/host_tensors.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

/// The families under test that can do the problem on the device.
std::vector<const KernelFamily*> supporting(const Problem& problem, const DeviceInfo& device) {
  std::vector<const KernelFamily*> families;
  for (const KernelFamily* family : {&cuda_implicit_gemm_family(), &cuda_implicit_gemm_sm90_family()})
    if (!family->unsupported_reason(problem, device)) families.push_back(family);
  return families;
}

class ImplicitGemmGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  /// Runs configurations of every family that can do the problem.
  void for_each_output(const HostTensors& host,
                       const std::function<void(const std::vector<double>&)>& check) {
    const auto families = supporting(host.problem, device().info());
    ASSERT_FALSE(families.empty());
    for (const KernelFamily* family : families)
      for (const Configuration& configuration : some_configurations(
               bind_space(*family, host.problem, device().info()), configurations_per_problem(4), 17)) {
        SCOPED_TRACE(std::string(family->name()) + " " + configuration.to_json());
        const auto executable =
            compile_and_load(family->instantiate(host.problem, configuration, device().info()));
        check(host.run(device(), *executable));
      }
  }

  /// Runs up to `count` configurations in fp16_e5m2, which has passes and sums of its own; a sample of all
  /// has few.
  void for_each_output_in_e5m2(const HostTensors& host, std::size_t count,
                               const std::function<void(const std::vector<double>&)>& check) {
    const KernelFamily& family = cuda_implicit_gemm_family();
    if (family.unsupported_reason(host.problem, device().info())) GTEST_SKIP() << "not of this family";
    const auto configurations =
        configurations_in(bind_space(family, host.problem, device().info()), "fp16_e5m2", count);
    if (configurations.empty()) GTEST_SKIP() << "no configuration in this mode";
    for (const Configuration& configuration : configurations) {
      SCOPED_TRACE(configuration.to_json());
      check(host.run(device(),
                     *compile_and_load(family.instantiate(host.problem, configuration, device().info()))));
    }
  }

  void expect_exact(const char* line) {
    HostTensors host(Problem::parse(line), Distribution::integers);
    const std::vector<double> reference = host.reference();
    for_each_output(host, [&](const std::vector<double>& output) {
      EXPECT_EQ(differences(host, output, reference), 0u);
    });
  }
};

class ExactImplicitGemmGpuTest : public ImplicitGemmGpuTest {};
TEST_P(ExactImplicitGemmGpuTest, EqualsTheReferenceOnIntegers) {
  expect_exact(GetParam());
}

TEST_P(ExactImplicitGemmGpuTest, EqualsTheReferenceOnIntegersInE5m2) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  const std::vector<double> reference = host.reference();
  for_each_output_in_e5m2(host, 3, [&](const std::vector<double>& output) {
    EXPECT_EQ(differences(host, output, reference), 0u);
  });
}

// Integers plus multiples of 2^-13 that fp16 rounds away: what it leaves is exact in e5m2, so that the
// products of the errors are seen, but for those of two errors.
void add_errors(std::vector<char>& memory) {
  float* values = reinterpret_cast<float*>(memory.data());
  std::mt19937 random(41);
  std::uniform_int_distribution<int> steps(-3, 3);
  for (std::size_t i = 0; i < memory.size() / sizeof(float); ++i)
    if (values[i] != 0) values[i] += static_cast<float>(steps(random)) * 0x1p-13f;
}

class ErrorsInE5m2GpuTest : public ImplicitGemmGpuTest {};

TEST_P(ErrorsInE5m2GpuTest, AreMultipliedByTheValuesOfTheOtherOperand) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  add_errors(host.memory[0]), add_errors(host.memory[1]);
  const std::vector<double> reference = host.reference();
  for_each_output_in_e5m2(host, 6, [&](const std::vector<double>& output) {
    double squares = 0, all = 0;
    for (std::size_t i = 0; i < output.size(); ++i)
      squares += std::pow(output[i] - reference[i], 2), all += std::pow(reference[i], 2);
    EXPECT_LE(std::sqrt(squares / all), 1e-5);  // 1e-4 without the errors of one operand
  });
}

INSTANTIATE_TEST_SUITE_P(
    Problems, ErrorsInE5m2GpuTest,
    testing::Values("conv2d n=2 c=8 h=18 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.25",
                    "conv2d n=2 c=3 h=39 w=43 k=24 r=11 s=11 stride=4 pad=2 bias",
                    "conv3d n=2 c=3 d=8 h=12 w=14 k=24 t=3 r=3 s=3 bias | min depth",
                    "conv2d n=2 c=64 h=12 w=16 k=40 r=3 s=3 pad=1 bias | relu",
                    "conv2d n=1 c=300 h=7 w=7 k=64 r=3 s=3 pad=1 bias"));

INSTANTIATE_TEST_SUITE_P(Plain, ExactImplicitGemmGpuTest, testing::ValuesIn(kExactProblems));
INSTANTIATE_TEST_SUITE_P(Matrix, ExactImplicitGemmGpuTest, testing::ValuesIn(kExactMatrixProblems));

class RoundedImplicitGemmGpuTest : public ImplicitGemmGpuTest {};

TEST_P(RoundedImplicitGemmGpuTest, IsWithinRoundingOfTheReference) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  const std::vector<double> reference = host.reference();
  for_each_output(host, [&](const std::vector<double>& output) {
    double worst = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      const double error = std::abs(output[i] - reference[i]);
      worst = error <= worst ? worst : error;  // NaN is the worst
      if (std::isnan(error)) break;
    }
    EXPECT_LE(worst, 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(Problems, RoundedImplicitGemmGpuTest, testing::ValuesIn(kRoundedProblems));

class NanImplicitGemmGpuTest : public ImplicitGemmGpuTest {};

TEST_P(NanImplicitGemmGpuTest, KeepsNan) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  float* input = reinterpret_cast<float*>(host.memory[0].data());
  input[host.memory[0].size() / 12] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> reference = host.reference();
  ASSERT_TRUE(std::any_of(reference.begin(), reference.end(), [](double x) { return std::isnan(x); }));
  for_each_output(host, [&](const std::vector<double>& output) {
    for (std::size_t i = 0; i < output.size(); ++i)
      ASSERT_TRUE(!std::isnan(reference[i]) || std::isnan(output[i])) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(
    Problems, NanImplicitGemmGpuTest,
    testing::Values("conv2d n=1 c=3 h=13 w=21 k=9 r=3 s=3 pad=1 | relu | leaky_relu 0.25",
                    "conv3d n=1 c=2 d=7 h=8 w=11 k=6 t=3 r=3 s=3 | max depth | softmax channel",
                    "conv1d n=2 c=3 w=50 k=8 s=3 | group_norm groups=2 eps=1e-5"));

/// The relative error that a precision mode has at most on a normal distribution, and at least if it rounds
/// its operands to 16 bits or TF32 at all.
struct ModeError {
  const char* precision;
  double least, most;
};

class ModeGpuTest : public GpuTest, public testing::WithParamInterface<ModeError> {};

TEST_P(ModeGpuTest, HasTheErrorOfItsMode) {
  const Problem problem = Problem::parse("conv2d n=2 c=24 h=20 w=32 k=40 r=3 s=3 pad=1");
  int found_in_all = 0;
  for (const KernelFamily* family : supporting(problem, device().info())) {
    if (family->space_json().find(GetParam().precision) == std::string_view::npos) continue;
    const BoundSpace space = bind_space(*family, problem, device().info());
    std::mt19937_64 random(5);
    int found = 0;
    for (const std::uint64_t index : space.sample(std::min<std::uint64_t>(space.size(), 300), random)) {
      const Configuration configuration = space.configuration(index);
      if (configuration.text("precision") != GetParam().precision || ++found > 2) continue;
      const auto executable = compile_and_load(family->instantiate(problem, configuration, device().info()));
      DeviceTensors tensors(device(), problem);
      tensors.fill(Distribution::normal, 3);
      tensors.run(*executable);
      const double error = tensors.verify().rel_fro;
      EXPECT_LE(error, GetParam().most) << family->name() << configuration.to_json();
      EXPECT_GE(error, GetParam().least) << family->name() << configuration.to_json();
    }
    EXPECT_GT(found, 0) << family->name();
    found_in_all += found;
  }
  EXPECT_GT(found_in_all, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, ModeGpuTest,
                         testing::Values(ModeError{"fp16", 1e-5, 6e-4}, ModeError{"bf16", 1e-3, 4e-3},
                                         ModeError{"tf32", 1e-5, 6e-4}, ModeError{"fp16x3", 0, 2e-6},
                                         ModeError{"bf16x3", 0, 2e-5}, ModeError{"tf32x3", 0, 2e-6},
                                         ModeError{"fp16_e5m2", 0, 5e-5}),
                         [](const auto& info) { return std::string(info.param.precision); });

}  // namespace
}  // namespace knobwise
