#include "kernels/cpu/epilogue_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cpu/epilogue_plan.h"

namespace knobwise {
namespace {

constexpr std::int64_t kTaskElements = 1 << 16;

/// A tensor in flight: the buffer, its offset in floats and its extents.
struct Place {
  BufferRef buffer;
  std::int64_t offset = 0;
};

std::string pointer(int argument, std::int64_t offset, bool constant) {
  return fmt::format("static_cast<{}float*>(arguments[{}]) + {}ll", constant ? "const " : "", argument,
                     offset);
}

class Writer {
 public:
  Writer(const Problem& problem, std::size_t first, int threads) : problem_(problem), threads_(threads) {
    const auto& steps = problem.epilogue;
    for (std::size_t i = first; i < steps.size(); ++i) reductions_left_ += is_reduction(i);
    place_ = next_place(problem.extents_before(first).elements());
    result_.convolution_output = place_.buffer;
    for (std::size_t i = first; i < steps.size();) i = write_step(i);
    result_.workspace_bytes = static_cast<std::size_t>(workspace_floats_) * sizeof(float);
  }

  EpilogueSteps take() { return std::move(result_); }

 private:
  bool is_reduction(std::size_t i) const {
    const EpilogueOp op = problem_.epilogue[i].op;
    return op == EpilogueOp::min || op == EpilogueOp::max || op == EpilogueOp::mean || op == EpilogueOp::sum;
  }

  /// Where a tensor lives that still has `reductions_left_` reductions before it.
  Place next_place(std::int64_t floats) {
    if (reductions_left_ == 0) return {{Slot::output, 0}, 0};
    const Place place{{Slot::workspace, 0}, workspace_floats_};
    workspace_floats_ += (floats + 15) / 16 * 16;
    return place;
  }

  /// Writes the step `i` (or the run of element-wise steps that begins there); returns the next.
  std::size_t write_step(std::size_t i) {
    switch (problem_.epilogue[i].op) {
      case EpilogueOp::residual:
        write_residual(i);
        return i + 1;
      case EpilogueOp::softmax:
        write_softmax(i);
        return i + 1;
      case EpilogueOp::group_norm:
      case EpilogueOp::instance_norm:
        write_norm(i);
        return i + 1;
      case EpilogueOp::min:
      case EpilogueOp::max:
      case EpilogueOp::mean:
      case EpilogueOp::sum:
        write_reduction(i);
        return i + 1;
      default:
        break;
    }
    const std::size_t end = end_of_elementwise(problem_, i);
    const std::string functor = fmt::format("step_{}_elements", i);
    result_.source += elementwise_functor(problem_, i, end, functor);
    write_pass(i, fmt::format("data[i] = {}(data[i]);", functor), {});
    return end;
  }

  void add(std::size_t i, std::int64_t tasks, std::vector<BufferRef> arguments, const std::string& body) {
    KernelLaunch launch;
    launch.function = fmt::format("step_{}", i);
    launch.grid[0] = static_cast<std::uint32_t>(tasks);
    launch.block[0] = static_cast<std::uint32_t>(threads_);
    launch.arguments = std::move(arguments);
    result_.launches.push_back(std::move(launch));
    result_.source +=
        fmt::format("extern \"C\" void step_{}(void* const* arguments, long long task) {{\n{}}}\n", i, body);
  }

  /// One statement for every element `i` of the tensor, in place.
  void write_pass(std::size_t step, const std::string& statement, std::vector<BufferRef> more) {
    const std::int64_t elements = problem_.extents_before(step).elements();
    std::vector<BufferRef> arguments{place_.buffer};
    arguments.insert(arguments.end(), more.begin(), more.end());
    add(step, (elements + kTaskElements - 1) / kTaskElements, arguments,
        fmt::format("  float* data = {};\n"
                    "  const Index first = task * {}, last = least({}ll, first + {});\n"
                    "  for (Index i = first; i < last; ++i) {}\n",
                    pointer(0, place_.offset, false), kTaskElements, elements, kTaskElements, statement));
  }

  void write_residual(std::size_t i) {
    write_pass(i, "data[i] += static_cast<const float*>(arguments[1])[i];",
               {{Slot::parameter, first_parameter(problem_, i)}});
  }

  void write_softmax(std::size_t i) {
    const Extents x = problem_.extents_before(i);
    const std::int64_t positions = x.d * x.h * x.w, span = std::min<std::int64_t>(positions, 4096);
    const std::int64_t spans = (positions + span - 1) / span;
    add(i, x.n * spans, {place_.buffer},
        fmt::format("  const Index n = task / {0}ll, first = task % {0}ll * {1}ll;\n"
                    "  softmax({2} + n * {3}ll + first, {4}ll, {5}ll, least({1}ll, {5}ll - first),\n"
                    "          [](float x) {{ return x; }});\n",
                    spans, span, pointer(0, place_.offset, false), x.c * positions, x.c, positions));
  }

  void write_norm(std::size_t i) {
    const Extents x = problem_.extents_before(i);
    const EpilogueStep& norm = problem_.epilogue[i];
    const std::int64_t channels = norm_channels(problem_, i), positions = x.d * x.h * x.w;
    std::vector<BufferRef> arguments{place_.buffer};
    std::string scale = "nullptr", shift = "nullptr";
    if (norm.affine) {
      const std::size_t parameter = first_parameter(problem_, i);
      arguments.push_back({Slot::parameter, parameter});
      arguments.push_back({Slot::parameter, parameter + 1});
      scale =
          fmt::format("static_cast<const float*>(arguments[1]) + task % {} * {}", x.c / channels, channels);
      shift =
          fmt::format("static_cast<const float*>(arguments[2]) + task % {} * {}", x.c / channels, channels);
    }
    add(i, x.n * (x.c / channels), arguments,
        fmt::format(
            "  normalise({} + task * {}ll, {}ll, {}ll, {:.17g}, {}, {}, [](float x) {{ return x; }});\n",
            pointer(0, place_.offset, false), channels * positions, channels, positions, norm.numbers.at(0),
            scale, shift));
  }

  void write_reduction(std::size_t i) {
    const Extents x = problem_.extents_before(i);
    const EpilogueStep& step = problem_.epilogue[i];
    std::int64_t outer = x.n, extent = x.c, inner = x.d * x.h * x.w;
    if (step.axis == Axis::depth) outer = x.n * x.c, extent = x.d, inner = x.h * x.w;
    if (step.axis == Axis::height) outer = x.n * x.c * x.d, extent = x.h, inner = x.w;
    if (step.axis == Axis::width) outer = x.n * x.c * x.d * x.h, extent = x.w, inner = 1;
    const std::int64_t batch = std::max<std::int64_t>(1, kTaskElements / (extent * inner));
    const Place from = place_;
    --reductions_left_;
    place_ = next_place(outer * inner);
    add(i, (outer + batch - 1) / batch, {from.buffer, place_.buffer},
        fmt::format("  for (Index o = task * {0}; o < least({1}ll, (task + 1) * {0}); ++o)\n"
                    "    reduce_axis<Reduction::{2}>({3} + o * {4}ll, {5} + o * {6}ll, {7}ll, {6}ll);\n",
                    batch, outer, to_string(step.op), pointer(0, from.offset, true), extent * inner,
                    pointer(1, place_.offset, false), inner, extent));
  }

  const Problem& problem_;
  int threads_;
  int reductions_left_ = 0;
  std::int64_t workspace_floats_ = 0;
  Place place_;
  EpilogueSteps result_;
};

}  // namespace

std::string elementwise_functor(const Problem& problem, std::size_t first, std::size_t last,
                                const std::string& name) {
  return fmt::format(
      "namespace {0}_chain {{\n{1}\n}}\n"
      "constexpr struct {{\n  float operator()(float x) const {{ return {0}_chain::kw_elementwise(x, 0); "
      "}}\n}} {0};\n",
      name, elementwise_source(problem, first, last));
}

EpilogueSteps epilogue_steps(const Problem& problem, std::size_t first, int threads) {
  return Writer(problem, first, threads).take();
}

}  // namespace knobwise
