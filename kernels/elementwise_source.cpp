// Generated text for the element-wise steps of an epilogue, for C++ and CUDA alike.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernels/epilogue_table.h"
#include "kernels/family.h"

namespace knobwise {
namespace {

std::string literal(double number) {
  const float value = static_cast<float>(number);
  return value < 0 ? fmt::format("({:#.9g}f)", value) : fmt::format("{:#.9g}f", value);
}

// Multiplying by the reciprocal is exact only for powers of two, and only while the reciprocal is normal.
bool has_exact_reciprocal(double number) {
  int exponent = 0;
  return std::abs(std::frexp(number, &exponent)) == 0.5 && std::isnormal(static_cast<float>(1 / number));
}

// One assignment to x. Comparisons are written so that NaN stays NaN.
std::string statement(const EpilogueStep& step) {
  const auto number = [&step](std::size_t i) { return literal(step.numbers.at(i)); };
  switch (step.op) {
    case EpilogueOp::add:
      return fmt::format("x = x + {};", number(0));
    case EpilogueOp::sub:
      return fmt::format("x = x - {};", number(0));
    case EpilogueOp::mul:
      return fmt::format("x = x * {};", number(0));
    case EpilogueOp::div:
      return has_exact_reciprocal(step.numbers[0]) ? fmt::format("x = x * {};", literal(1 / step.numbers[0]))
                                                   : fmt::format("x = x / {};", number(0));
    case EpilogueOp::relu:
      return "x = x < 0.0f ? 0.0f : x;";
    case EpilogueOp::leaky_relu:
      return fmt::format("x = x > 0.0f ? x : x * {};", number(0));
    case EpilogueOp::clamp:
      return fmt::format("x = x < {0} ? {0} : x; x = x > {1} ? {1} : x;", number(0), number(1));
    case EpilogueOp::sigmoid:
      return "x = 1.0f / (1.0f + KW_EXPF(-x));";
    case EpilogueOp::tanh:
      return "x = KW_TANHF(x);";
    case EpilogueOp::gelu:
      return "x = 0.5f * x * (1.0f + KW_ERFF(x * 0.707106781f));";
    case EpilogueOp::silu:
      return "x = x / (1.0f + KW_EXPF(-x));";
    case EpilogueOp::mish:
      // softplus(x) is x to the last bit from 20 on, where exp(x) would soon overflow.
      return "x = x * KW_TANHF(x > 20.0f ? x : KW_LOG1PF(KW_EXPF(x)));";
    case EpilogueOp::hardswish:
      return "{ float gate = x + 3.0f; gate = gate < 0.0f ? 0.0f : gate; gate = gate > 6.0f ? 6.0f : gate; "
             "x = x * gate / 6.0f; }";
    default:
      throw std::invalid_argument(fmt::format("'{}' is not a step on one element", to_string(step.op)));
  }
}

constexpr const char* kFunctions = R"(#ifndef KW_EXPF
#ifdef __CUDACC__
#define KW_EXPF expf
#define KW_TANHF tanhf
#define KW_ERFF erff
#define KW_LOG1PF log1pf
#else
#define KW_EXPF __builtin_expf
#define KW_TANHF __builtin_tanhf
#define KW_ERFF __builtin_erff
#define KW_LOG1PF __builtin_log1pf
#endif
#endif
)";

}  // namespace

std::string elementwise_source(const Problem& problem, std::size_t first, std::size_t last) {
  std::string text = kFunctions;
  text += "KW_FN float kw_elementwise(float x, long long element) {\n  (void)element;\n";
  for (std::size_t i = first; i < last; ++i) text += "  " + statement(problem.epilogue.at(i)) + "\n";
  text += "  return x;\n}\n";
  return text;
}

}  // namespace knobwise
