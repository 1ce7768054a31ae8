#include "kernels/cuda/fused_epilogue.h"

#include <fmt/format.h>

#include "kernels/family.h"

namespace knobwise {
namespace {

bool is_norm(EpilogueOp op) {
  return op == EpilogueOp::group_norm || op == EpilogueOp::instance_norm;
}

bool is_reduction(EpilogueOp op) {
  return op == EpilogueOp::min || op == EpilogueOp::max || op == EpilogueOp::mean || op == EpilogueOp::sum;
}

/// One past the element-wise steps without parameters that begin at `first`.
std::size_t end_of_elementwise(const Problem& problem, std::size_t first) {
  while (first < problem.epilogue.size() && is_elementwise(problem.epilogue[first].op) &&
         problem.epilogue[first].op != EpilogueOp::residual)
    ++first;
  return first;
}

std::string elementwise_function(const Problem& problem, std::size_t first, std::size_t last,
                                 std::string_view name) {
  return fmt::format("#define kw_elementwise {}\n{}#undef kw_elementwise\n", name,
                     elementwise_source(problem, first, last));
}

}  // namespace

std::int64_t FusedEpilogue::norm_channels(const Problem& problem) const {
  if (!norm) return 0;
  const EpilogueStep& step = problem.epilogue[*norm];
  return step.op == EpilogueOp::group_norm ? problem.k / step.groups : 1;
}

std::string FusedEpilogue::source(const Problem& problem) const {
  const auto reduces = [&](EpilogueOp op) { return reduction && problem.epilogue[*reduction].op == op; };
  std::string text = fmt::format(
      "#define KW_EPILOGUE_REDUCE_DEPTH {:d}\n#define KW_EPILOGUE_MIN {:d}\n#define KW_EPILOGUE_MAX {:d}\n"
      "#define KW_EPILOGUE_MEAN {:d}\n#define KW_EPILOGUE_SOFTMAX {:d}\n#define KW_EPILOGUE_NORM {:d}\n"
      "#define KW_EPILOGUE_RESIDUAL {:d}\n",
      reduction.has_value(), reduces(EpilogueOp::min), reduces(EpilogueOp::max), reduces(EpilogueOp::mean),
      softmax.has_value(), norm.has_value(), residual.has_value());
  if (norm) {
    const EpilogueStep& step = problem.epilogue[*norm];
    text +=
        fmt::format("#define KW_NORM_GROUPS {}\n#define KW_NORM_EPS {:.9e}f\n#define KW_NORM_AFFINE {:d}\n",
                    problem.k / norm_channels(problem), step.numbers.at(0), step.affine);
  }
  text += "#define KW_FN __device__ __forceinline__\n";
  const std::size_t second = reduction ? *reduction : norm ? *norm : residual ? *residual : between;
  text += elementwise_function(problem, 0, second, "kw_before");
  text += elementwise_function(problem, between, softmax ? *softmax : after, "kw_between");
  text += elementwise_function(problem, after, problem.epilogue.size(), "kw_after");
  return text;
}

BufferRef residual_argument(const Problem& problem, const FusedEpilogue& epilogue) {
  // Parameters stand in the order of the steps that need them, after weights and bias; a fused residual is
  // alone.
  return {Slot::parameter, epilogue.residual ? std::size_t{problem.bias ? 2u : 1u} : 0};
}

std::optional<FusedEpilogue> plan_fused_epilogue(const Problem& problem, std::string& reason) {
  const auto& steps = problem.epilogue;
  FusedEpilogue plan;
  std::size_t next = end_of_elementwise(problem, 0);
  const auto at = [&](auto&& is) { return next < steps.size() && is(steps[next].op); };
  if (at(is_reduction) && steps[next].axis == Axis::depth) {
    plan.reduction = next;
    next = end_of_elementwise(problem, next + 1);
  } else if (at(is_norm)) {
    plan.norm = next;
    next = end_of_elementwise(problem, next + 1);
  } else if (at([](EpilogueOp op) { return op == EpilogueOp::residual; })) {
    plan.residual = next;
    next = end_of_elementwise(problem, next + 1);
  }
  plan.between = plan.reduction  ? *plan.reduction + 1
                 : plan.norm     ? *plan.norm + 1
                 : plan.residual ? *plan.residual + 1
                                 : next;
  if (!plan.norm && !plan.residual && at([](EpilogueOp op) { return op == EpilogueOp::softmax; })) {
    plan.softmax = next;
    next = end_of_elementwise(problem, next + 1);
  }
  plan.after = plan.softmax ? *plan.softmax + 1 : next;
  if (next == steps.size()) return plan;
  reason = fmt::format(
      "the kernel fuses element-wise steps, a reduction over depth and a softmax over the channels in this "
      "order, or one norm or residual; step {} of the epilogue, {}, does not fit",
      next + 1, to_string(steps[next].op));
  return std::nullopt;
}

}  // namespace knobwise
