// Tensors beyond 2^31 elements: every offset of every family has 64 bits where it must.
#include <algorithm>
#include <iostream>
#include <random>
#include <string>

#include "kernels/cuda/direct_conv_family.h"
#include "kernels/cuda/implicit_gemm_family.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "kernels/cuda/reference_family.h"
#include "kernels/reference.h"
#include "tests/cuda/gpu_fixture.h"

namespace knobwise {
namespace {

constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
constexpr std::uint64_t kSeed = 5;

/// One output of a convolution with bias and without an epilogue, rounded to the problem's type, from the
/// fills' definition alone.
class OutputOracle {
 public:
  explicit OutputOracle(const Problem& problem)
      : problem_(problem),
        input_(operand_fill(problem, Distribution::integers, kSeed, -1)),
        weights_(operand_fill(problem, Distribution::integers, kSeed, 0)) {
    if (problem.bias) bias_ = operand_fill(problem, Distribution::integers, kSeed, 1);
  }

  double at(std::int64_t index) const {
    const Extents e = problem_.output_extents();
    const Coordinates out = coordinates(e, index);
    const std::int64_t inputs = problem_.c / problem_.groups, outputs = problem_.k / problem_.groups;
    double sum = problem_.bias ? operand_value(bias_, out.c) : 0;
    for (std::int64_t c = 0; c < inputs; ++c)
      for (std::int64_t t = 0; t < problem_.filter[0]; ++t)
        for (std::int64_t r = 0; r < problem_.filter[1]; ++r)
          for (std::int64_t s = 0; s < problem_.filter[2]; ++s) {
            const std::int64_t d = place(0, out.d, t), h = place(1, out.h, r), w = place(2, out.w, s);
            if (d < 0 || d >= problem_.in[0] || h < 0 || h >= problem_.in[1] || w < 0 || w >= problem_.in[2])
              continue;
            const std::int64_t channel = out.c / outputs * inputs + c;
            const std::int64_t tap =
                (((out.c * inputs + c) * problem_.filter[0] + t) * problem_.filter[1] + r) *
                    problem_.filter[2] +
                s;
            sum += operand_value(weights_, tap) *
                   operand_value(input_, element(problem_.input_extents(), {out.n, channel, d, h, w}));
          }
    char element[8];
    store_element(element, problem_.dtype, 0, sum);
    return load_element(element, problem_.dtype, 0);
  }

 private:
  struct Coordinates {
    std::int64_t n, c, d, h, w;
  };

  Coordinates coordinates(const Extents& e, std::int64_t index) const {
    const std::int64_t plane = e.d * e.h * e.w, n = index / (e.c * plane), rest = index % (e.c * plane);
    const bool last = problem_.layout == Layout::nhwc;
    const std::int64_t c = last ? rest % e.c : rest / plane, pixel = last ? rest / e.c : rest % plane;
    return {n, c, pixel / (e.h * e.w), pixel / e.w % e.h, pixel % e.w};
  }
  std::int64_t element(const Extents& e, const Coordinates& at) const {
    const std::int64_t plane = e.d * e.h * e.w, pixel = (at.d * e.h + at.h) * e.w + at.w;
    return problem_.layout == Layout::nhwc ? (at.n * plane + pixel) * e.c + at.c
                                           : (at.n * e.c + at.c) * plane + pixel;
  }
  std::int64_t place(std::size_t axis, std::int64_t out, std::int64_t tap) const {
    return out * problem_.stride[axis] - problem_.pad[axis] + tap * problem_.dilation[axis];
  }

  const Problem& problem_;
  OperandFill input_, weights_, bias_;
};

/// The outputs that a wrapped offset would get wrong first, edges and seams, and a random sample.
std::vector<std::int64_t> chosen_outputs(const Problem& problem, const OutputTile& tile) {
  const std::int64_t count = problem.output_extents().elements();
  std::vector<std::int64_t> indices = sample_outputs(problem, tile, 3000, kSeed);
  for (std::int64_t around = kTwo31 / 8; around < count; around += kTwo31 / 8)
    for (std::int64_t i = around - 2; i <= around + 2; ++i)
      if (i < count) indices.push_back(i);
  return indices;
}

class LargeTensorsGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  /// The default configuration and a random one of every family that can do the problem.
  template <class Check>
  void for_each_kernel(const Problem& problem, Check check) {
    for (const KernelFamily* family : {&cuda_reference_family(), &cuda_direct_conv_family(),
                                       &cuda_implicit_gemm_family(), &cuda_implicit_gemm_sm90_family()}) {
      if (const auto reason = family->unsupported_reason(problem, device().info())) {
        ASSERT_NE(family, &cuda_reference_family()) << *reason;
        std::cout << family->name() << ": " << *reason << "\n";
        continue;
      }
      const BoundSpace space = bind_space(*family, problem, device().info());
      std::mt19937_64 random(kSeed);
      std::vector<std::uint64_t> indices = {space.default_index()};
      if (space.size() > 1) indices.push_back(space.sample(1, random).front());
      for (const std::uint64_t index : indices) {
        const Configuration configuration = space.configuration(index);
        SCOPED_TRACE(std::string(family->name()) + " " + configuration.to_json());
        check(*compile_and_load(family->instantiate(problem, configuration, device().info())),
              family->tile(problem, configuration));
      }
    }
  }

  double output_at(const DeviceTensors& tensors, const Problem& problem, std::int64_t index) {
    char element[8];
    const auto size = size_of(problem.dtype);
    device().download(
        element, static_cast<const char*>(tensors.buffers().output) + static_cast<std::size_t>(index) * size,
        size);
    return load_element(element, problem.dtype, 0);
  }
};

class LargeConvolutionGpuTest : public LargeTensorsGpuTest {};

TEST_P(LargeConvolutionGpuTest, ChosenOutputsEqualTheHostsAndAllTheReference) {
  const Problem problem = Problem::parse(GetParam());
  ASSERT_GT(problem.input_extents().elements(), kTwo31);
  ASSERT_GT(problem.output_extents().elements(), kTwo31);
  DeviceTensors tensors(device(), problem);
  const OutputOracle oracle(problem);
  for_each_kernel(problem, [&](Executable& executable, const OutputTile& tile) {
    tensors.fill(Distribution::integers, kSeed);
    tensors.run(executable);
    for (const std::int64_t index : chosen_outputs(problem, tile))
      ASSERT_EQ(output_at(tensors, problem, index), oracle.at(index)) << "output " << index;
    const ErrorMetrics metrics = tensors.verify();
    EXPECT_EQ(metrics.checked, problem.output_extents().elements());
    EXPECT_EQ(metrics.nans, 0);
    EXPECT_LE(metrics.rel_fro, problem.dtype == DType::f32 ? 0 : 4e-3);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Problems, LargeConvolutionGpuTest,
    testing::Values(
        // Many samples; one sample of several channels; one channel; channels last; several dimensions.
        "conv2d n=40000 c=8 h=90 w=90 k=8 r=3 s=3 bias", "conv2d n=1 c=2 h=33000 w=33000 k=2 r=3 s=3 pad=1",
        "conv2d n=1 c=1 h=47000 w=47000 k=1 r=3 s=3 pad=1 bias",
        "conv2d n=1 c=16 h=12000 w=12000 k=16 r=3 s=3 pad=1 dtype=f16 layout=nhwc",
        "conv3d n=3 c=4 d=200 h=1000 w=1000 k=4 t=3 r=1 s=3 groups=2 dtype=bf16",
        "conv2d n=1 c=16 h=12300 w=12300 k=16 r=1 s=1 groups=2 dtype=f16 layout=nhwc"));

class LargeInputGpuTest : public LargeTensorsGpuTest {};

TEST_P(LargeInputGpuTest, EveryOutputIsWithinRoundingOfTheReference) {
  const Problem problem = Problem::parse(GetParam());
  ASSERT_GT(problem.input_extents().elements(), kTwo31);
  DeviceTensors tensors(device(), problem);
  for_each_kernel(problem, [&](Executable& executable, const OutputTile&) {
    tensors.fill(Distribution::integers, kSeed);
    tensors.run(executable);
    const ErrorMetrics metrics = tensors.verify();
    EXPECT_EQ(metrics.checked, problem.output_extents().elements());
    EXPECT_EQ(metrics.nans, 0);
    EXPECT_LE(metrics.max_abs, 1e-5);
  });
}

// An input dimension beyond 2^31 is for the reference; an epilogue that reduces; a norm.
INSTANTIATE_TEST_SUITE_P(
    Problems, LargeInputGpuTest,
    testing::Values("conv1d n=1 c=1 w=2200000000 k=1 s=3 stride=2 dtype=f16",
                    "conv3d n=12000 c=3 d=24 h=50 w=50 k=16 t=3 r=3 s=3 bias | min depth | softmax channel",
                    "conv1d n=70000 c=32 w=1000 k=32 s=3 pad=1 | group_norm groups=4 eps=1e-5"));

}  // namespace
}  // namespace knobwise
