#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/reference.h"
#include "tests/cuda/gpu_fixture.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {
namespace {

/// Configurations of each problem; 0, with KNOBWISE_ALL_CONFIGURATIONS=1, is all of them.
std::uint64_t configurations_per_problem() {
  const char* all = std::getenv("KNOBWISE_ALL_CONFIGURATIONS");
  return all && std::string_view(all) == "1" ? 0 : 4;
}

/// A problem's tensors on the host and what float64 makes of them.
struct HostTensors {
  explicit HostTensors(const Problem& problem) : problem(problem) {
    const auto add = [&](std::int64_t elements, int parameter) {
      memory.emplace_back(static_cast<std::size_t>(elements));
      fill_host(memory.back().data(), DType::f32, elements,
                operand_fill(problem, Distribution::integers, 3, parameter));
    };
    add(problem.input_extents().elements(), -1);
    const auto specs = problem.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) add(specs[i].elements(), static_cast<int>(i));
  }

  std::vector<double> reference() {
    Buffers buffers;
    buffers.input = memory[0].data();
    for (std::size_t i = 1; i < memory.size(); ++i) buffers.parameters.push_back(memory[i].data());
    std::vector<double> output(static_cast<std::size_t>(problem.output_extents().elements()));
    reference_output(problem, buffers, output.data(), 0);
    return output;
  }

  Problem problem;
  std::vector<std::vector<float>> memory;  ///< Input, then parameters.
};

class DirectConvGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  std::vector<float> run(const HostTensors& host, const Configuration& configuration) {
    DeviceTensors tensors(device(), host.problem);
    tensors.fill(Distribution::integers, 3);
    const Buffers& buffers = tensors.buffers();
    device().upload(buffers.input, host.memory[0].data(), 4 * host.memory[0].size());
    for (std::size_t i = 1; i < host.memory.size(); ++i)
      device().upload(buffers.parameters[i - 1], host.memory[i].data(), 4 * host.memory[i].size());
    const auto executable =
        compile_and_load(cuda_direct_conv_family().instantiate(host.problem, configuration, device().info()));
    tensors.run(*executable);
    std::vector<float> output(static_cast<std::size_t>(host.problem.output_extents().elements()));
    device().download(output.data(), buffers.output, 4 * output.size());
    return output;
  }

  std::vector<Configuration> configurations(const Problem& problem) {
    return some_configurations(bind_space(cuda_direct_conv_family(), problem, device().info()),
                               configurations_per_problem(), 17);
  }
};

class ExactDirectConvGpuTest : public DirectConvGpuTest {};
class RoundedDirectConvGpuTest : public DirectConvGpuTest {};

/// Elements that differ, NaN being equal to NaN.
std::size_t differences(const std::vector<float>& output, const std::vector<double>& reference) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float expected = static_cast<float>(reference[i]);
    if (!(output[i] == expected || (std::isnan(output[i]) && std::isnan(expected)))) ++count;
  }
  return count;
}

TEST_P(ExactDirectConvGpuTest, EqualsTheReferenceOnIntegers) {
  HostTensors host(Problem::parse(GetParam()));
  const std::vector<double> reference = host.reference();
  for (const Configuration& configuration : configurations(host.problem))
    EXPECT_EQ(differences(run(host, configuration), reference), 0u) << configuration.to_json();
}

TEST_P(RoundedDirectConvGpuTest, IsWithinRoundingOfTheReference) {
  HostTensors host(Problem::parse(GetParam()));
  const std::vector<double> reference = host.reference();
  for (const Configuration& configuration : configurations(host.problem)) {
    const std::vector<float> output = run(host, configuration);
    double worst = 0;
    for (std::size_t i = 0; i < output.size(); ++i) {
      const double error = std::abs(output[i] - reference[i]);
      worst = error <= worst ? worst : error;  // NaN is the worst
      if (std::isnan(error)) break;
    }
    EXPECT_LE(worst, 1e-5) << configuration.to_json();
  }
}

INSTANTIATE_TEST_SUITE_P(Problems, ExactDirectConvGpuTest, testing::ValuesIn(kExactProblems));
INSTANTIATE_TEST_SUITE_P(Problems, RoundedDirectConvGpuTest, testing::ValuesIn(kRoundedProblems));

class NanDirectConvGpuTest : public DirectConvGpuTest {};

TEST_P(NanDirectConvGpuTest, KeepsNan) {
  HostTensors host(Problem::parse(GetParam()));
  host.memory[0][host.memory[0].size() / 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> reference = host.reference();
  ASSERT_TRUE(std::any_of(reference.begin(), reference.end(), [](double x) { return std::isnan(x); }));
  for (const Configuration& configuration : configurations(host.problem)) {
    const std::vector<float> output = run(host, configuration);
    for (std::size_t i = 0; i < output.size(); ++i)
      ASSERT_EQ(std::isnan(output[i]), std::isnan(reference[i])) << i << " of " << configuration.to_json();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Problems, NanDirectConvGpuTest,
    testing::Values("conv2d n=1 c=3 h=13 w=21 k=9 r=3 s=3 pad=1 | relu | leaky_relu 0.25",
                    "conv3d n=1 c=2 d=7 h=8 w=11 k=6 t=3 r=3 s=3 | min depth",
                    "conv3d n=1 c=2 d=7 h=8 w=11 k=6 t=3 r=3 s=3 | max depth | softmax channel",
                    "conv1d n=2 c=3 w=50 k=8 s=3 | group_norm groups=2 eps=1e-5"));

}  // namespace
}  // namespace knobwise
