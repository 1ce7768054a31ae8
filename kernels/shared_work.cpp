#include "kernels/shared_work.h"

#include <algorithm>

namespace knobwise {
namespace {

void widen_to_all(std::int64_t& low, std::int64_t& high, std::int64_t extent) {
  low = 0;
  high = extent - 1;
}

void widen_along(Axis axis, const Extents& e, Box& box) {
  switch (axis) {
    case Axis::channel:
      return widen_to_all(box.low.c, box.high.c, e.c);
    case Axis::depth:
      return widen_to_all(box.low.d, box.high.d, e.d);
    case Axis::height:
      return widen_to_all(box.low.h, box.high.h, e.h);
    case Axis::width:
      return widen_to_all(box.low.w, box.high.w, e.w);
  }
}

// From what a step yields to what it reads, of extents `e`.
void widen(const EpilogueStep& step, const Extents& e, Box& box) {
  if (is_elementwise(step.op)) return;
  if (step.op != EpilogueOp::group_norm && step.op != EpilogueOp::instance_norm)
    return widen_along(step.axis, e, box);
  const std::int64_t channels = step.op == EpilogueOp::group_norm ? e.c / step.groups : 1;
  box.low.c = box.low.c / channels * channels;
  box.high.c = box.high.c / channels * channels + channels - 1;
  widen_along(Axis::depth, e, box);
  widen_along(Axis::height, e, box);
  widen_along(Axis::width, e, box);
}

}  // namespace

Box convolution_box(const Problem& problem, const Position& output) {
  Box box{output, output};
  for (std::size_t i = problem.epilogue.size(); i-- > 0;) {
    widen(problem.epilogue[i], problem.extents_before(i), box);
  }
  return box;
}

Box outputs_of(const Problem& problem, const Box& box) {
  const Extents e = problem.output_extents();
  Box outputs = box;
  const auto clip = [](std::int64_t& low, std::int64_t& high, std::int64_t extent) {
    low = std::min(low, extent - 1);
    high = std::min(high, extent - 1);
  };
  clip(outputs.low.c, outputs.high.c, e.c);
  clip(outputs.low.d, outputs.high.d, e.d);
  clip(outputs.low.h, outputs.high.h, e.h);
  clip(outputs.low.w, outputs.high.w, e.w);
  return outputs;
}

double shared_macs(const Problem& problem) {
  const Box box = convolution_box(problem, {});
  const auto extent = [](std::int64_t low, std::int64_t high) { return static_cast<double>(high - low + 1); };
  return static_cast<double>(problem.fan_in()) * extent(box.low.c, box.high.c) *
         extent(box.low.d, box.high.d) * extent(box.low.h, box.high.h) * extent(box.low.w, box.high.w);
}

bool has_norm(const Problem& problem) {
  return std::any_of(problem.epilogue.begin(), problem.epilogue.end(), [](const EpilogueStep& step) {
    return step.op == EpilogueOp::group_norm || step.op == EpilogueOp::instance_norm;
  });
}

}  // namespace knobwise
