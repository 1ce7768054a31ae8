// The generated epilogue compiles on the host and means what the float64 definition says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/family.h"
#include "tests/kernels/host_library.h"

namespace knobwise {
namespace {

Problem with_steps(const std::string& steps) {
  return Problem::parse("conv1d n=1 c=1 w=8 k=1 s=1 | " + steps);
}

std::vector<float> arguments() {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f,    -0.0f,  1e-40f,   -1e-40f,   1e-10f,
                               -1e-10f, 88.0f,  -88.0f,   104.0f,    -104.0f,
                               1e30f,   -1e30f, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  for (int i = -400; i <= 400; ++i) values.push_back(static_cast<float>(i) * 0.05f);
  return values;
}

double definition(const Problem& problem, double x) {
  for (const EpilogueStep& step : problem.epilogue) x = apply_elementwise(step, x, 0);
  return x;
}

TEST(ElementwiseSource, MeansWhatTheDefinitionSays) {
  const std::vector<std::string> chains = {"add 0.1",
                                           "sub 0.1",
                                           "mul 1.7",
                                           "div 3",
                                           "div 2",
                                           "div -0.5",
                                           "div 1e-38",
                                           "relu",
                                           "leaky_relu 0.01",
                                           "leaky_relu -0.5",
                                           "clamp -0.25 6",
                                           "sigmoid",
                                           "tanh",
                                           "gelu",
                                           "silu",
                                           "mish",
                                           "hardswish",
                                           "div 2 | leaky_relu 0.01",
                                           "add 3 | clamp 0 6 | mul 0.16666666 | tanh"};
  std::string source;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const std::string name = "chain" + std::to_string(i);
    const Problem problem = with_steps(chains[i]);
    source += "#define kw_elementwise " + name + "_step\n#define KW_FN static inline\n" +
              elementwise_source(problem, 0, problem.epilogue.size()) +
              "#undef KW_FN\n#undef kw_elementwise\n" + "extern \"C\" float " + name + "(float x) { return " +
              name + "_step(x, 0); }\n";
  }
  const HostLibrary library(source);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const Problem problem = with_steps(chains[i]);
    auto* function = library.function<float(float)>(("chain" + std::to_string(i)).c_str());
    ASSERT_NE(function, nullptr);
    for (float x : arguments()) {
      const double expected = definition(problem, x);
      const float value = function(x);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << chains[i] << " of " << x;
      } else if (std::abs(expected) > std::numeric_limits<float>::max()) {
        EXPECT_EQ(value, expected > 0 ? HUGE_VALF : -HUGE_VALF) << chains[i] << " of " << x;
      } else {
        EXPECT_NEAR(value, expected, 1e-6 + 1e-6 * std::abs(expected)) << chains[i] << " of " << x;
      }
    }
  }
}

TEST(ElementwiseSource, DivisionIsExact) {
  // x * (1 / 3) differs from x / 3 in the last bit for a third of all x.
  const Problem problem = with_steps("div 3");
  const HostLibrary library("#define KW_FN static inline\n" + elementwise_source(problem, 0, 1) +
                            "extern \"C\" float f(float x) { return kw_elementwise(x, 0); }\n");
  auto* f = library.function<float(float)>("f");
  for (float x = 1; x < 2; x += 1e-4f) ASSERT_EQ(f(x), x / 3.0f);
}

TEST(ElementwiseSource, TakesAPartOfTheChain) {
  const Problem problem = with_steps("add 1 | mul 2 | sub 3");
  const HostLibrary library("#define KW_FN static inline\n" + elementwise_source(problem, 1, 2) +
                            "extern \"C\" float f(float x) { return kw_elementwise(x, 0); }\n");
  EXPECT_EQ(library.function<float(float)>("f")(5), 10);
}

TEST(ElementwiseSource, RefusesStepsThatNeedMore) {
  EXPECT_THROW(elementwise_source(with_steps("relu | residual"), 0, 2), std::invalid_argument);
  EXPECT_THROW(elementwise_source(with_steps("max width"), 0, 1), std::invalid_argument);
}

TEST(ApplyElementwise, NanStaysNan) {
  for (const char* step : {"add 1", "mul 0", "relu", "leaky_relu 0.1", "clamp 0 1", "sigmoid", "tanh", "gelu",
                           "silu", "mish", "hardswish"}) {
    EXPECT_TRUE(std::isnan(definition(with_steps(step), NAN))) << step;
  }
}

TEST(Combine, MinAndMaxKeepNanFromEitherSide) {
  for (EpilogueOp op : {EpilogueOp::min, EpilogueOp::max}) {
    EXPECT_TRUE(std::isnan(combine(op, NAN, 1))) << to_string(op);
    EXPECT_TRUE(std::isnan(combine(op, 1, NAN))) << to_string(op);
  }
  EXPECT_EQ(combine(EpilogueOp::min, 2, 1), 1);
  EXPECT_EQ(combine(EpilogueOp::max, 2, 1), 2);
  EXPECT_EQ(combine(EpilogueOp::sum, 2, 1), 3);
}

}  // namespace
}  // namespace knobwise
