// The oracle against a second implementation, written as the definitions read, and its own two forms against
// one another.
#include "kernels/reference.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "tests/kernels/random_problems.h"
#include "tests/kernels/tensors.h"

namespace knobwise {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The definition of every step, one output at a time, by recursion over the chain.
class Definition {
 public:
  Definition(const Problem& problem, const Buffers& buffers) : p_(problem), buffers_(buffers) {
    const auto specs = problem.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) index_[specs[i].name] = i;
  }

  double at(std::size_t step, std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
            std::int64_t w) {
    const auto [found, added] = known_.try_emplace({step, n, c, d, h, w}, 0);
    if (added) {
      const double value = step == 0 ? convolution(n, c, d, h, w) : apply(step - 1, n, c, d, h, w);
      known_[{step, n, c, d, h, w}] = value;
      return value;
    }
    return found->second;
  }

  std::vector<double> all() {
    const Extents e = p_.output_extents();
    std::vector<double> values(static_cast<std::size_t>(e.elements()));
    for (std::int64_t n = 0; n < e.n; ++n)
      for (std::int64_t c = 0; c < e.c; ++c)
        for (std::int64_t d = 0; d < e.d; ++d)
          for (std::int64_t h = 0; h < e.h; ++h)
            for (std::int64_t w = 0; w < e.w; ++w)
              values[static_cast<std::size_t>(place(e, n, c, d, h, w))] =
                  at(p_.epilogue.size(), n, c, d, h, w);
    return values;
  }

 private:
  std::int64_t place(const Extents& e, std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
                     std::int64_t w) const {
    return p_.layout == Layout::nchw ? (((n * e.c + c) * e.d + d) * e.h + h) * e.w + w
                                     : (((n * e.d + d) * e.h + h) * e.w + w) * e.c + c;
  }

  double parameter(const std::string& name, std::int64_t element) {
    return load_element(buffers_.parameters[index_.at(name)], p_.dtype, element);
  }

  double input(std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h, std::int64_t w) {
    const Extents e = p_.input_extents();
    if (d < 0 || d >= e.d || h < 0 || h >= e.h || w < 0 || w >= e.w) return 0;
    return load_element(buffers_.input, p_.dtype, place(e, n, c, d, h, w));
  }

  double convolution(std::int64_t n, std::int64_t k, std::int64_t d, std::int64_t h, std::int64_t w) {
    const std::int64_t group = k / (p_.k / p_.groups), per_group = p_.c / p_.groups;
    double total = p_.bias ? parameter("bias", k) : 0;
    for (std::int64_t c = 0; c < per_group; ++c)
      for (std::int64_t t = 0; t < p_.filter[0]; ++t)
        for (std::int64_t r = 0; r < p_.filter[1]; ++r)
          for (std::int64_t s = 0; s < p_.filter[2]; ++s) {
            const std::int64_t tap =
                (((k * per_group + c) * p_.filter[0] + t) * p_.filter[1] + r) * p_.filter[2] + s;
            total += parameter("weights", tap) * input(n, group * per_group + c,
                                                       d * p_.stride[0] - p_.pad[0] + t * p_.dilation[0],
                                                       h * p_.stride[1] - p_.pad[1] + r * p_.dilation[1],
                                                       w * p_.stride[2] - p_.pad[2] + s * p_.dilation[2]);
          }
    return total;
  }

  double apply(std::size_t i, std::int64_t n, std::int64_t c, std::int64_t d, std::int64_t h,
               std::int64_t w) {
    const EpilogueStep& step = p_.epilogue[i];
    const Extents e = p_.extents_before(i);
    switch (step.op) {
      case EpilogueOp::min:
      case EpilogueOp::max:
      case EpilogueOp::mean:
      case EpilogueOp::sum:
        return reduce(step, i, e, n, c, d, h, w);
      case EpilogueOp::softmax: {
        double total = 0;
        for (std::int64_t other = 0; other < e.c; ++other)
          total += std::exp(at(i, n, other, d, h, w) - at(i, n, c, d, h, w));
        return 1 / total;
      }
      case EpilogueOp::group_norm:
      case EpilogueOp::instance_norm:
        return normalise(step, i, e, n, c, d, h, w);
      case EpilogueOp::residual:
        return at(i, n, c, d, h, w) + parameter("residual" + std::to_string(i), place(e, n, c, d, h, w));
      default:
        return elementwise(step, at(i, n, c, d, h, w));
    }
  }

  double reduce(const EpilogueStep& step, std::size_t i, const Extents& e, std::int64_t n, std::int64_t c,
                std::int64_t d, std::int64_t h, std::int64_t w) {
    std::vector<double> line;
    switch (step.axis) {
      case Axis::channel:
        for (std::int64_t x = 0; x < e.c; ++x) line.push_back(at(i, n, x, d, h, w));
        break;
      case Axis::depth:
        for (std::int64_t x = 0; x < e.d; ++x) line.push_back(at(i, n, c, x, h, w));
        break;
      case Axis::height:
        for (std::int64_t x = 0; x < e.h; ++x) line.push_back(at(i, n, c, d, x, w));
        break;
      case Axis::width:
        for (std::int64_t x = 0; x < e.w; ++x) line.push_back(at(i, n, c, d, h, x));
        break;
    }
    if (step.op == EpilogueOp::min) return *std::min_element(line.begin(), line.end());
    if (step.op == EpilogueOp::max) return *std::max_element(line.begin(), line.end());
    const double total = std::accumulate(line.begin(), line.end(), 0.0);
    return step.op == EpilogueOp::sum ? total : total / static_cast<double>(line.size());
  }

  double normalise(const EpilogueStep& step, std::size_t i, const Extents& e, std::int64_t n, std::int64_t c,
                   std::int64_t d, std::int64_t h, std::int64_t w) {
    const std::int64_t channels = step.op == EpilogueOp::group_norm ? e.c / step.groups : 1;
    std::vector<double> group;
    for (std::int64_t x = c / channels * channels; x < (c / channels + 1) * channels; ++x)
      for (std::int64_t a = 0; a < e.d; ++a)
        for (std::int64_t b = 0; b < e.h; ++b)
          for (std::int64_t f = 0; f < e.w; ++f) group.push_back(at(i, n, x, a, b, f));
    const double count = static_cast<double>(group.size());
    const double mean = std::accumulate(group.begin(), group.end(), 0.0) / count;
    double variance = 0;
    for (double x : group) variance += (x - mean) * (x - mean) / count;
    double value = (at(i, n, c, d, h, w) - mean) / std::sqrt(variance + step.numbers[0]);
    if (step.affine) {
      value = value * parameter("scale" + std::to_string(i), c) + parameter("shift" + std::to_string(i), c);
    }
    return value;
  }

  static double elementwise(const EpilogueStep& step, double x) {
    switch (step.op) {
      case EpilogueOp::add:
        return x + step.numbers[0];
      case EpilogueOp::sub:
        return x - step.numbers[0];
      case EpilogueOp::mul:
        return x * step.numbers[0];
      case EpilogueOp::div:
        return x / step.numbers[0];
      case EpilogueOp::relu:
        return std::max(x, 0.0);
      case EpilogueOp::leaky_relu:
        return x >= 0 ? x : step.numbers[0] * x;
      case EpilogueOp::clamp:
        return std::clamp(x, step.numbers[0], step.numbers[1]);
      case EpilogueOp::sigmoid:
        return 1 / (1 + std::exp(-x));
      case EpilogueOp::tanh:
        return std::tanh(x);
      case EpilogueOp::gelu:
        return x * std::erfc(-x / std::sqrt(2.0)) / 2;
      case EpilogueOp::silu:
        return x / (1 + std::exp(-x));
      case EpilogueOp::mish:
        return x * std::tanh(std::log1p(std::exp(x)));
      case EpilogueOp::hardswish:
        return x * std::clamp(x + 3, 0.0, 6.0) / 6;
      default:
        ADD_FAILURE() << to_string(step.op);
        return 0;
    }
  }

  const Problem& p_;
  const Buffers& buffers_;
  std::map<std::string, std::size_t> index_;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           double>
      known_;
};

std::vector<double> whole(const Problem& problem, const Buffers& buffers, int threads = 2) {
  std::vector<double> values(static_cast<std::size_t>(problem.output_extents().elements()));
  reference_output(problem, buffers, values.data(), threads);
  return values;
}

std::vector<std::int64_t> every_index(const Problem& problem) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(problem.output_extents().elements()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Sums in another order differ in the last bits; norms of nearly constant groups magnify that.
void expect_close(double value, double expected, const std::string& line) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(value)) << line;
  } else {
    EXPECT_NEAR(value, expected, 1e-9 * std::max(1.0, std::abs(expected))) << line;
  }
}

TEST(Reference, RandomProblemsFollowTheDefinition) {
  RandomProblems problems(11);
  for (int i = 0; i < 150; ++i) {
    const Problem problem = problems.next();
    Tensors tensors(problem, Distribution::normal, static_cast<std::uint64_t>(i));
    const std::string line = problem.to_string();
    const std::vector<double> values = whole(problem, tensors.buffers());
    const std::vector<double> points = reference_at(problem, tensors.buffers(), every_index(problem));
    const std::vector<double> expected = Definition(problem, tensors.buffers()).all();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t j = 0; j < expected.size(); ++j) {
      expect_close(values[j], expected[j], line);
      expect_close(points[j], expected[j], line);
    }
    if (HasFailure()) return;
  }
}

TEST(Reference, EveryStepFollowsTheDefinition) {
  for (const char* steps : {"add 0.5",
                            "sub 0.5",
                            "mul -3",
                            "div 3",
                            "relu",
                            "leaky_relu 0.1",
                            "clamp -1 0.5",
                            "sigmoid",
                            "tanh",
                            "gelu",
                            "silu",
                            "mish",
                            "hardswish",
                            "residual",
                            "min depth",
                            "max height",
                            "mean width",
                            "sum channel",
                            "softmax channel",
                            "group_norm groups=3 affine",
                            "instance_norm",
                            "min depth | softmax channel",
                            "group_norm groups=2 | group_norm groups=3",
                            "softmax channel | instance_norm affine",
                            "group_norm groups=2 | softmax channel",
                            "residual | max channel | residual",
                            "min width | mean height"}) {
    for (const char* layout : {"nchw", "nhwc"}) {
      const Problem problem =
          Problem::parse(std::string("conv3d n=2 c=2 d=4 h=5 w=6 k=6 t=2 r=3 s=2 pad=1x0x1 bias layout=") +
                         layout + " | " + steps);
      Tensors tensors(problem, Distribution::normal, 5);
      const std::vector<double> expected = Definition(problem, tensors.buffers()).all();
      const std::vector<double> values = whole(problem, tensors.buffers());
      const std::vector<double> points = reference_at(problem, tensors.buffers(), every_index(problem));
      for (std::size_t j = 0; j < expected.size(); ++j) {
        expect_close(values[j], expected[j], problem.to_string());
        expect_close(points[j], expected[j], problem.to_string());
      }
    }
  }
}

TEST(Reference, IntegersAreExact) {
  const Problem problem =
      Problem::parse("conv2d n=2 c=6 h=9 w=7 k=4 r=3 s=2 stride=2x1 pad=2 groups=2 bias dtype=bf16");
  Tensors tensors(problem, Distribution::integers, 3);
  for (double value : whole(problem, tensors.buffers())) EXPECT_EQ(value, std::round(value));
  EXPECT_EQ(whole(problem, tensors.buffers()), Definition(problem, tensors.buffers()).all());
}

TEST(Reference, ThreadsChangeNothing) {
  const Problem problem = Problem::parse("conv2d n=3 c=3 h=9 w=9 k=5 r=3 s=3 | group_norm groups=5");
  Tensors tensors(problem, Distribution::normal, 3);
  EXPECT_EQ(whole(problem, tensors.buffers(), 1), whole(problem, tensors.buffers(), 5));
  EXPECT_EQ(whole(problem, tensors.buffers(), 1), whole(problem, tensors.buffers(), 0));
}

TEST(Reference, NanInTheInputReachesEveryOutputThatReadsIt) {
  for (const char* steps :
       {"relu", "clamp -1 1", "leaky_relu 0.5", "hardswish", "mish", "gelu", "silu", "tanh", "min channel",
        "max channel", "max width", "min width", "mean width", "softmax channel", "instance_norm"}) {
    const Problem problem = Problem::parse(std::string("conv1d n=2 c=1 w=9 k=3 s=3 | ") + steps);
    Tensors tensors(problem, Distribution::uniform, 3);
    tensors.set_input(4, kNan);  // sample 0: outputs 2, 3, 4 of each channel
    const std::vector<double> values = whole(problem, tensors.buffers());
    const std::vector<double> points = reference_at(problem, tensors.buffers(), every_index(problem));
    const Extents e = problem.output_extents();
    for (std::int64_t i = 0; i < e.elements(); ++i) {
      const std::int64_t n = i / (e.c * e.w), w = i % e.w;
      const bool reads = n == 0 && (e.w == 1 || std::string(steps) == "instance_norm" || (w >= 2 && w <= 4));
      EXPECT_EQ(std::isnan(values[static_cast<std::size_t>(i)]), reads) << steps << " at " << i;
      EXPECT_EQ(std::isnan(points[static_cast<std::size_t>(i)]), reads) << steps << " at " << i;
    }
  }
}

TEST(Reference, SoftmaxOfLargeNumbersIsFinite) {
  const Problem problem = Problem::parse("conv1d n=1 c=1 w=4 k=3 s=1 | mul 1e6 | softmax channel");
  Tensors tensors(problem, Distribution::uniform, 3);
  const std::vector<double> values = whole(problem, tensors.buffers());
  for (std::size_t w = 0; w < 4; ++w) EXPECT_NEAR(values[w] + values[4 + w] + values[8 + w], 1, 1e-12);
}

TEST(Reference, VarianceOfALargeMeanDoesNotCancel) {
  // E[x^2] - E[x]^2 keeps no digit of a variance of 1/12 beside a mean of 1e9.
  const Problem plain = Problem::parse("conv1d n=1 c=1 w=512 k=2 s=1 | instance_norm eps=1e-9");
  const Problem shifted = Problem::parse("conv1d n=1 c=1 w=512 k=2 s=1 | add 1e9 | instance_norm eps=1e-9");
  Tensors tensors(plain, Distribution::uniform, 3);
  const std::vector<double> expected = whole(plain, tensors.buffers());
  const std::vector<double> values = whole(shifted, tensors.buffers());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5);
}

TEST(VerifyHost, RightOutputsPassAndOneWrongOneIsSeen) {
  const Problem problem = Problem::parse("conv2d n=2 c=3 h=12 w=12 k=4 r=3 s=3 | relu");
  Tensors tensors(problem, Distribution::normal, 3);
  const std::vector<double> values = whole(problem, tensors.buffers());
  for (std::size_t i = 0; i < values.size(); ++i) tensors.set_output(static_cast<std::int64_t>(i), values[i]);
  const ErrorMetrics right = verify_host(problem, tensors.buffers(), {}, 1);
  EXPECT_EQ(right.checked, tensors.outputs());
  EXPECT_EQ(right.frac_outside, 0);
  EXPECT_LT(right.rel_fro, 1e-7);
  tensors.set_output(137, values[137] + 1);
  EXPECT_EQ(verify_host(problem, tensors.buffers(), {}, 1).frac_outside,
            1.0 / static_cast<double>(tensors.outputs()));
}

// The reference is kept between calls, as long as nothing that it follows from has changed.
TEST(VerifyHost, OutputsAreJudgedByTheInputsOfTheMoment) {
  const Problem problem = Problem::parse("conv2d n=1 c=2 h=6 w=6 k=3 r=3 s=3 bias | add 1 | residual");
  Tensors tensors(problem, Distribution::normal, 3);
  const auto write = [&tensors](const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      tensors.set_output(static_cast<std::int64_t>(i), values[i]);
  };
  const auto wrong = [&tensors](const Problem& asked) {
    return verify_host(asked, tensors.buffers(), {}, 1).frac_outside;
  };
  const auto outputs = static_cast<double>(tensors.outputs());
  write(whole(problem, tensors.buffers()));
  EXPECT_EQ(wrong(problem), 0);
  EXPECT_EQ(wrong(problem), 0);
  EXPECT_EQ(wrong(Problem::parse("conv2d n=1 c=2 h=6 w=6 k=3 r=3 s=3 bias | add 2 | residual")), 1);
  store_element(tensors.buffers().parameters[2], problem.dtype, 7, 100);  // the residual
  EXPECT_EQ(wrong(problem), 1 / outputs);
  store_element(tensors.buffers().parameters[0], problem.dtype, 0, 100);  // a weight of the first channel
  EXPECT_EQ(wrong(problem), 1.0 / 3);
  tensors.set_input(0, 100);
  write(whole(problem, tensors.buffers()));
  EXPECT_EQ(wrong(problem), 0);
}

TEST(VerifyHost, OutputsNeverWrittenAreFoundInALargeProblem) {
  // Too large to be checked whole; one element in 18 million is missing.
  const Problem problem = Problem::parse("conv2d n=4 c=8 h=128 w=128 k=64 r=3 s=3 | mul 0");
  Tensors tensors(problem, Distribution::uniform, 3);
  for (std::int64_t i = 0; i < tensors.outputs(); ++i) tensors.set_output(i, 0);
  EXPECT_EQ(verify_host(problem, tensors.buffers(), {}, 1).nans, 0);
  tensors.set_output(1'234'567, kNan);
  EXPECT_EQ(verify_host(problem, tensors.buffers(), {}, 1).nans, 1);
}

}  // namespace
}  // namespace knobwise
