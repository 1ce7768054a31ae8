#include <cmath>
#include <limits>

#include "tests/configurations_option.h"
#include "tests/cuda/host_tensors.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {
namespace {

class DirectConvGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  std::vector<double> run(const HostTensors& host, const Configuration& configuration) {
    return host.run(device(), *compile_and_load(cuda_direct_conv_family().instantiate(
                                  host.problem, configuration, device().info())));
  }

  std::vector<Configuration> configurations(const Problem& problem) {
    return some_configurations(bind_space(cuda_direct_conv_family(), problem, device().info()),
                               configurations_per_problem(4), 17);
  }
};

class ExactDirectConvGpuTest : public DirectConvGpuTest {};
class RoundedDirectConvGpuTest : public DirectConvGpuTest {};

TEST_P(ExactDirectConvGpuTest, EqualsTheReferenceOnIntegers) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  const std::vector<double> reference = host.reference();
  for (const Configuration& configuration : configurations(host.problem))
    EXPECT_EQ(differences(host, run(host, configuration), reference), 0u) << configuration.to_json();
}

TEST_P(RoundedDirectConvGpuTest, IsWithinRoundingOfTheReference) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  const std::vector<double> reference = host.reference();
  for (const Configuration& configuration : configurations(host.problem)) {
    const std::vector<double> output = run(host, configuration);
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
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  float* input = reinterpret_cast<float*>(host.memory[0].data());
  input[host.memory[0].size() / 12] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<double> reference = host.reference();
  ASSERT_TRUE(std::any_of(reference.begin(), reference.end(), [](double x) { return std::isnan(x); }));
  for (const Configuration& configuration : configurations(host.problem)) {
    const std::vector<double> output = run(host, configuration);
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
