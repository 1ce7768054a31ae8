// Sampled configurations of direct_conv against the float64 reference, on small and ragged problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/cpu/direct_conv_family.h"
#include "search_spaces/bound_space.h"
#include "tests/configurations_option.h"
#include "tests/cpu/harness.h"

namespace knobwise {
namespace {

// Odd extents everywhere, so that every tile has remainders; 4 x 9 configurations of the first nine cover the
// plain convolution, the rest one kind of epilogue each.
const char* const kProblems[] = {
    "conv2d n=2 c=3 h=23 w=37 k=19 r=3 s=3 bias",
    "conv2d n=1 c=5 h=41 w=43 k=26 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=2 c=13 h=17 w=75 k=17 r=5 s=7",
    "conv2d n=1 c=6 h=19 w=21 k=15 r=3 s=2 stride=2x3 pad=1x2 dilation=2x3 groups=3 bias",
    "conv2d n=2 c=21 h=9 w=9 k=21 r=3 s=3 pad=1 groups=21",
    "conv2d n=3 c=29 h=7 w=5 k=33 r=1 s=1 stride=2",
    "conv1d n=3 c=37 w=301 k=29 s=3 pad=1",
    "conv1d n=2 c=4 w=150 k=10 s=5 stride=3 pad=4 dilation=2 groups=2 bias",
    "conv3d n=1 c=3 d=7 h=11 w=13 k=9 t=3 r=3 s=3 stride=2 pad=1",
    "conv2d n=2 c=8 h=21 w=33 k=25 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv2d n=1 c=4 h=12 w=70 k=11 r=3 s=3 bias | sub 3 | relu | clamp 0 90 | mul -2",
    "conv2d n=1 c=4 h=12 w=33 k=11 r=3 s=3 | mul 0.015625 | gelu",
    "conv3d n=2 c=3 d=7 h=10 w=12 k=13 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv3d n=2 c=2 d=6 h=9 w=35 k=10 t=2 r=3 s=3 groups=2 bias | relu | max depth | add 1",
    "conv3d n=1 c=3 d=6 h=9 w=10 k=10 t=3 r=3 s=3 pad=1 | mean depth | mul 0.125 | softmax channel | mul 3",
    "conv2d n=2 c=6 h=8 w=11 k=14 r=3 s=3 groups=2 | mul 0.015625 | softmax channel",
    "conv1d n=2 c=24 w=130 k=32 s=3 pad=1 | group_norm groups=4 eps=1e-5 affine",
    "conv2d n=2 c=3 h=13 w=14 k=10 r=3 s=3 bias | mul 0.5 | instance_norm eps=1e-3 | relu",
    "conv2d n=1 c=6 h=9 w=14 k=12 r=3 s=3 groups=3 | group_norm groups=2 eps=1e-5",
    "conv2d n=2 c=3 h=9 w=20 k=7 r=3 s=3 bias | residual | relu | max height",
    "conv2d n=2 c=3 h=9 w=20 k=7 r=3 s=3 | add 1 | min channel | relu | sum width",
};

class DirectConv : public ::testing::TestWithParam<const char*> {};

std::vector<Configuration> configurations(const BoundSpace& space) {
  const std::uint64_t wanted = configurations_per_problem(3);
  std::mt19937_64 random(20);
  std::vector<std::uint64_t> indices = space.sample(wanted ? wanted : space.size(), random);
  indices.push_back(space.default_index());
  std::vector<Configuration> result;
  for (const std::uint64_t index : indices) result.push_back(space.configuration(index));
  return result;
}

TEST_P(DirectConv, MatchesTheReferenceInEveryConfiguration) {
  const Problem problem = Problem::parse(GetParam());
  const KernelFamily& family = cpu_direct_conv_family();
  ASSERT_EQ(family.unsupported_reason(problem, cpu().info()), std::nullopt);
  const BoundSpace space = bind_space(family, problem, cpu().info());
  ASSERT_GT(space.size(), 0u);
  std::vector<double> reference(static_cast<std::size_t>(problem.output_extents().elements()));
  reference_output(problem, Tensors(problem, 1).buffers(), reference.data(), 0);
  for (const Configuration& configuration : configurations(space)) {
    const KernelInstance instance = family.instantiate(problem, configuration, cpu().info());
    const CompiledCode code = cpu_compile(instance, cpu().info());
    const std::unique_ptr<Executable> executable = cpu().load(instance, code);
    Tensors tensors(problem, 1);
    run_on(*executable, tensors);
    EXPECT_TRUE(matches(problem, tensors.output(), reference)) << configuration.to_json();
  }
}

INSTANTIATE_TEST_SUITE_P(Problems, DirectConv, ::testing::ValuesIn(kProblems));

// Each value of each knob, once, on one problem: a sample of configurations may miss a value.
TEST(DirectConvKnobs, EveryValueOfEveryKnobIsRight) {
  const Problem problem = Problem::parse("conv3d n=1 c=34 d=4 h=20 w=131 k=50 t=1 r=2 s=2 bias | max depth");
  const KernelFamily& family = cpu_direct_conv_family();
  const BoundSpace space = bind_space(family, problem, cpu().info());
  std::vector<double> reference(static_cast<std::size_t>(problem.output_extents().elements()));
  reference_output(problem, Tensors(problem, 2).buffers(), reference.data(), 0);
  std::mt19937_64 random(3);
  const auto candidates = space.sample(5000, random);
  std::vector<std::vector<bool>> seen;
  for (const Knob& knob : space.knobs()) seen.emplace_back(knob.values.size(), false);
  for (const std::uint64_t index : candidates) {
    const Positions positions = space.positions(index);
    bool news = false;
    for (std::size_t k = 0; k < positions.size(); ++k) {
      news = news || !seen[k][positions[k]];
      seen[k][positions[k]] = true;
    }
    if (!news) continue;
    const Configuration configuration = space.configuration(index);
    const KernelInstance instance = family.instantiate(problem, configuration, cpu().info());
    const auto executable = cpu().load(instance, cpu_compile(instance, cpu().info()));
    Tensors tensors(problem, 2);
    run_on(*executable, tensors);
    EXPECT_TRUE(matches(problem, tensors.output(), reference)) << configuration.to_json();
  }
}

TEST(DirectConvNumerics, ADepthMinimumKeepsNaN) {
  const Problem problem = Problem::parse("conv3d n=1 c=1 d=5 h=4 w=6 k=2 t=1 r=1 s=1 | min depth");
  const KernelFamily& family = cpu_direct_conv_family();
  const BoundSpace space = bind_space(family, problem, cpu().info());
  const Configuration configuration = space.configuration(space.default_index());
  const KernelInstance instance = family.instantiate(problem, configuration, cpu().info());
  const auto executable = cpu().load(instance, cpu_compile(instance, cpu().info()));
  Tensors tensors(problem, 1);
  static_cast<float*>(tensors.buffers().parameters[0])[0] = 1;
  static_cast<float*>(tensors.buffers().parameters[0])[1] = 1;
  static_cast<float*>(tensors.buffers().input)[2 * 24 + 7] = NAN;  // depth 2, row 1, column 1
  run_on(*executable, tensors);
  for (std::size_t i = 0; i < tensors.output().size(); ++i)
    EXPECT_EQ(std::isnan(tensors.output()[i]), i % 24 == 7) << i;
}

TEST(DirectConvNumerics, AGroupNormDoesNotCancelAroundALargeMean) {
  const Problem problem =
      Problem::parse("conv1d n=1 c=1 w=1000 k=4 s=1 bias | group_norm groups=1 eps=1e-5 affine");
  const KernelFamily& family = cpu_direct_conv_family();
  const BoundSpace space = bind_space(family, problem, cpu().info());
  const Configuration configuration = space.configuration(space.default_index());
  const KernelInstance instance = family.instantiate(problem, configuration, cpu().info());
  const auto executable = cpu().load(instance, cpu_compile(instance, cpu().info()));
  Tensors tensors(problem, 1);
  for (int k = 0; k < 4; ++k) static_cast<float*>(tensors.buffers().parameters[1])[k] = 65536;
  run_on(*executable, tensors);
  std::vector<double> reference(tensors.output().size());
  reference_output(problem, tensors.buffers(), reference.data(), 0);
  EXPECT_TRUE(matches(problem, tensors.output(), reference));
}

}  // namespace
}  // namespace knobwise
