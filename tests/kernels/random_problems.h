// Random problems that are valid by construction.
#pragma once

#include <array>
#include <random>

#include "kernels/problem.h"

namespace knobwise {

/// Draws problems of every rank, type, layout and chain of steps; small ones, so that they can be computed.
class RandomProblems {
 public:
  explicit RandomProblems(std::uint64_t seed) : random_(seed) {}

  Problem next() {
    Problem p;
    p.rank = integer(1, 3);
    p.groups = integer(0, 2) ? 1 : integer(1, 3);
    p.n = integer(1, 3);
    p.c = p.groups * integer(1, 4);
    p.k = p.groups * integer(1, 4);
    for (std::size_t i = static_cast<std::size_t>(3 - p.rank); i < 3; ++i) draw_dimension(p, i);
    p.bias = integer(0, 1);
    p.dtype = std::array{DType::f32, DType::f16, DType::bf16}[static_cast<std::size_t>(integer(0, 2))];
    p.layout = integer(0, 1) ? Layout::nchw : Layout::nhwc;
    for (int steps = integer(0, 3); steps > 0; --steps) add_step(p);
    return p;
  }

  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  void draw_dimension(Problem& p, std::size_t i) {
    p.filter[i] = integer(1, 4);
    p.stride[i] = integer(1, 3);
    p.pad[i] = integer(0, 3);
    p.dilation[i] = integer(1, 3);
    const std::int64_t least = (p.filter[i] - 1) * p.dilation[i] + 1 - 2 * p.pad[i];
    p.in[i] = std::max<std::int64_t>(1, least) + integer(0, 6);
  }

  double number() {
    const double value = std::ldexp(integer(-1000, 1000), integer(-12, 12)) / 3;
    return value == 0 ? 0.25 : value;
  }

  void add_step(Problem& p) {
    EpilogueStep step;
    step.op = static_cast<EpilogueOp>(integer(0, static_cast<int>(EpilogueOp::instance_norm)));
    const std::int64_t channels = p.output_extents().c;
    switch (step.op) {
      case EpilogueOp::add:
      case EpilogueOp::sub:
      case EpilogueOp::mul:
      case EpilogueOp::div:
      case EpilogueOp::leaky_relu:
        step.numbers = {number()};
        break;
      case EpilogueOp::clamp:
        step.numbers = {number(), number()};
        std::sort(step.numbers.begin(), step.numbers.end());
        break;
      case EpilogueOp::min:
      case EpilogueOp::max:
      case EpilogueOp::mean:
      case EpilogueOp::sum:
        step.axis = std::array{Axis::channel, Axis::width, Axis::height,
                               Axis::depth}[static_cast<std::size_t>(integer(0, p.rank))];
        for (const EpilogueStep& earlier : p.epilogue) {
          if (earlier.op >= EpilogueOp::min && earlier.op <= EpilogueOp::sum && earlier.axis == step.axis)
            return;
        }
        break;
      case EpilogueOp::group_norm:
        step.groups = channels % 2 ? 1 : 2;
        [[fallthrough]];
      case EpilogueOp::instance_norm:
        step.numbers = {1e-5};
        step.affine = integer(0, 1);
        break;
      default:
        break;
    }
    p.epilogue.push_back(step);
  }

  std::mt19937_64 random_;
};

}  // namespace knobwise
