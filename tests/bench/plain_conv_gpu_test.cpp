// The family of the designs that are written by hand, on a GPU, against float64.
#include "bench/plain_conv_family.h"

#include <cmath>

#include "tests/configurations_option.h"
#include "tests/cuda/host_tensors.h"

namespace knobwise {
namespace {

class PlainConvGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(PlainConvGpuTest, IsWithinRoundingOfTheReference) {
  for (const Distribution distribution : {Distribution::integers, Distribution::uniform}) {
    HostTensors host(Problem::parse(GetParam()), distribution);
    const std::vector<double> reference = host.reference();
    const BoundSpace space = bind_space(plain_conv_family(), host.problem, device().info());
    for (const Configuration& configuration : some_configurations(space, configurations_per_problem(4), 5)) {
      const std::vector<double> output = host.run(
          device(),
          *compile_and_load(plain_conv_family().instantiate(host.problem, configuration, device().info())));
      double worst = 0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        const double error = std::abs(output[i] - reference[i]) / (1 + std::abs(reference[i]));
        worst = error <= worst ? worst : error;  // NaN is the worst
        if (std::isnan(error)) break;
      }
      EXPECT_LE(worst, 2e-5) << configuration.to_json();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Problems, PlainConvGpuTest,
    testing::Values("conv2d n=2 c=3 h=30 w=34 k=20 r=11 s=11 stride=4 pad=2 bias",
                    "conv2d n=2 c=8 h=18 w=20 k=24 r=3 s=3 bias | div 2 | leaky_relu 0.01",
                    "conv3d n=1 c=3 d=9 h=8 w=10 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
                    "conv2d n=1 c=12 h=14 w=16 k=24 r=5 s=7",
                    "conv1d n=2 c=16 w=40 k=32 s=3 pad=1 | group_norm groups=4 eps=1e-5 affine",
                    "conv3d n=1 c=2 d=6 h=7 w=9 k=8 t=2 r=3 s=2 stride=1x2x1 dilation=2x1x2 pad=1x1x0 bias | "
                    "relu | mean depth | mul 2",
                    "conv2d n=2 c=4 h=9 w=8 k=16 r=3 s=3 pad=1 | instance_norm eps=1e-3 | relu",
                    "conv2d n=1 c=4 h=12 w=9 k=24 r=3 s=1 dilation=2x1 | mul 0.5 | softmax channel | add 1"));

}  // namespace
}  // namespace knobwise
