#include "kernels/cpu/epilogue_plan.h"

namespace knobwise {
namespace {

bool is_norm(EpilogueOp op) {
  return op == EpilogueOp::group_norm || op == EpilogueOp::instance_norm;
}

bool is_reduction(EpilogueOp op) {
  return op == EpilogueOp::min || op == EpilogueOp::max || op == EpilogueOp::mean || op == EpilogueOp::sum;
}

}  // namespace

std::size_t end_of_elementwise(const Problem& problem, std::size_t first) {
  while (first < problem.epilogue.size() && is_elementwise(problem.epilogue[first].op) &&
         problem.epilogue[first].op != EpilogueOp::residual)
    ++first;
  return first;
}

std::int64_t norm_channels(const Problem& problem, std::size_t step) {
  const EpilogueStep& norm = problem.epilogue[step];
  return norm.op == EpilogueOp::group_norm ? problem.extents_before(step).c / norm.groups : 1;
}

std::size_t first_parameter(const Problem& problem, std::size_t step) {
  std::size_t index = problem.bias ? 2 : 1;
  for (std::size_t i = 0; i < step; ++i) {
    if (problem.epilogue[i].op == EpilogueOp::residual) index += 1;
    if (is_norm(problem.epilogue[i].op) && problem.epilogue[i].affine) index += 2;
  }
  return index;
}

EpiloguePlan plan_epilogue(const Problem& problem, bool fuse) {
  EpiloguePlan plan;
  const auto& steps = problem.epilogue;
  plan.end = end_of_elementwise(problem, 0);
  if (!fuse) return plan;
  if (plan.end < steps.size() && is_reduction(steps[plan.end].op) && steps[plan.end].axis == Axis::depth) {
    plan.reduction = plan.end;
    plan.end = end_of_elementwise(problem, plan.end + 1);
  }
  if (plan.end == steps.size()) return plan;
  const bool softmax = steps[plan.end].op == EpilogueOp::softmax;
  const bool norm =
      is_norm(steps[plan.end].op) && problem.k / problem.groups % norm_channels(problem, plan.end) == 0;
  if (softmax || norm) {
    plan.combine = plan.end;
    plan.end = end_of_elementwise(problem, plan.end + 1);
  }
  return plan;
}

}  // namespace knobwise
