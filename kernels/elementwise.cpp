#include "kernels/elementwise.h"

#include <cmath>
#include <stdexcept>

namespace knobwise {

double apply_elementwise(const EpilogueStep& step, double x, double residual) {
  const auto number = [&step](std::size_t i) { return step.numbers[i]; };
  switch (step.op) {
    case EpilogueOp::add:
      return x + number(0);
    case EpilogueOp::sub:
      return x - number(0);
    case EpilogueOp::mul:
      return x * number(0);
    case EpilogueOp::div:
      return x / number(0);
    case EpilogueOp::relu:
      return x < 0 ? 0 : x;
    case EpilogueOp::leaky_relu:
      return x > 0 ? x : x * number(0);
    case EpilogueOp::clamp:
      return x < number(0) ? number(0) : x > number(1) ? number(1) : x;
    case EpilogueOp::sigmoid:
      return 1 / (1 + std::exp(-x));
    case EpilogueOp::tanh:
      return std::tanh(x);
    case EpilogueOp::gelu:
      return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case EpilogueOp::silu:
      return x / (1 + std::exp(-x));
    case EpilogueOp::mish:
      return x * std::tanh(x > 40 ? x : std::log1p(std::exp(x)));
    case EpilogueOp::hardswish:
      return x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
    case EpilogueOp::residual:
      return x + residual;
    default:
      throw std::invalid_argument("not a step on one element");
  }
}

double combine(EpilogueOp reduction, double a, double b) {
  switch (reduction) {
    case EpilogueOp::min:
      return std::isnan(a) || a < b ? a : b;
    case EpilogueOp::max:
      return std::isnan(a) || a > b ? a : b;
    default:
      return a + b;
  }
}

}  // namespace knobwise
