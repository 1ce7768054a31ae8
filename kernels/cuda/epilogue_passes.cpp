#include "kernels/cuda/epilogue_passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/device_source.h"
#include "kernels/epilogue_table.h"
#include "kernels/family.h"

namespace knobwise {
namespace {

constexpr int kFloat = 0;  // the number of fp32 in epilogue_passes.cuh

std::string shape_of(const Extents& extents) {
  return fmt::format("Shape{{{}, {}, {}, {}}}", extents.c, extents.d, extents.h, extents.w);
}

// Writes sections and passes one after the other.
class PassPlanner {
 public:
  PassPlanner(const Problem& problem, const PassSource& source, std::string_view prefix);
  PassPlan plan();

 private:
  struct Section {
    std::string name;
    bool empty = true;
  };
  Section next_section();
  void add_elements(std::string& body, std::size_t first, std::size_t last, int section);
  void add_pass(std::size_t step, const Section& before);
  void add_map(const Section& section);
  std::string call_of(std::size_t step, const std::string& before, const std::string& after);
  void emit(const std::string& body, std::uint32_t blocks, std::uint32_t threads, std::size_t after_step);

  bool matches() const { return source_.nhwc == (problem_.layout == Layout::nhwc); }
  std::string source_expression() const;

  const Problem& problem_;
  PassSource source_;
  std::string prefix_;
  bool bias_pending_;
  std::size_t next_;           // step of the epilogue
  std::size_t parameter_ = 1;  // next one to be used, in order
  int sections_ = 0;
  PassTensor current_ = PassTensor::source;
  PassPlan plan_;
};

PassPlanner::PassPlanner(const Problem& problem, const PassSource& source, std::string_view prefix)
    : problem_(problem),
      source_(source),
      prefix_(prefix),
      bias_pending_(problem.bias && !source.bias_done && source.first_step == 0),
      next_(source.first_step) {
  if (!bias_pending_) {
    Problem done = problem;
    done.epilogue.resize(source.first_step);
    parameter_ = done.parameters().size();
  }
  plan_.source = source_prelude(problem, {}) +
                 fmt::format("#undef KW_DTYPE\n#define KW_DTYPE {}\n", static_cast<int>(problem.dtype)) +
                 device_source("epilogue_passes.cuh");
}

// The bias where it is due and the element-wise steps up to the next other step, as a function.
PassPlanner::Section PassPlanner::next_section() {
  Section section{fmt::format("{}_section{}", prefix_, sections_)};
  std::string body;
  if (bias_pending_) {
    body += fmt::format("  x += load_float(p.at[{}], KW_DTYPE, c);\n", parameter_++);
    bias_pending_ = false;
  }
  std::size_t first = next_;
  for (; next_ < problem_.epilogue.size() && is_elementwise(problem_.epilogue[next_].op); ++next_) {
    if (problem_.epilogue[next_].op != EpilogueOp::residual) continue;
    add_elements(body, first, next_, sections_);
    body += fmt::format("  x += load_float(p.at[{}], KW_DTYPE, i);\n", parameter_++);
    first = next_ + 1;
  }
  add_elements(body, first, next_, sections_);
  section.empty = body.empty();
  plan_.source += fmt::format(
      "__device__ inline float {}(const Parameters& p, float x, long long c, long long i) {{\n{}  return "
      "x;\n}}\n",
      section.name, body);
  ++sections_;
  return section;
}

void PassPlanner::add_elements(std::string& body, std::size_t first, std::size_t last, int section) {
  if (first == last) return;
  const std::string scope = fmt::format("{}_steps{}_{}", prefix_, section, first);
  plan_.source += fmt::format("namespace {} {{\n{}}}\n", scope, elementwise_source(problem_, first, last));
  body += fmt::format("  x = {}::kw_elementwise(x, i);\n", scope);
}

std::string PassPlanner::source_expression() const {
  const bool first = current_ == PassTensor::source;
  return fmt::format("Source{{in, {}, {}, {}}}", first ? static_cast<int>(source_.dtype) : kFloat,
                     first ? source_.nhwc : problem_.layout == Layout::nhwc, first ? source_.parts : 1);
}

// Defines a kernel and queues it; it writes what epilogue steps before `after_step` give.
void PassPlanner::emit(const std::string& body, std::uint32_t blocks, std::uint32_t threads,
                       std::size_t after_step) {
  Pass pass{fmt::format("{}_pass{}", prefix_, plan_.passes.size()), blocks, threads, current_,
            PassTensor::output};
  const bool last = after_step == problem_.epilogue.size();
  if (!last) {
    const int which = current_ == PassTensor::scratch0 ? 1 : 0;
    pass.out = which == 0 ? PassTensor::scratch0 : PassTensor::scratch1;
    plan_.scratch_bytes[which] =
        std::max(plan_.scratch_bytes[which],
                 static_cast<std::size_t>(problem_.extents_before(after_step).elements()) * 4);
  }
  std::string declared, named;
  for (std::size_t i = 0; i < problem_.parameters().size(); ++i) {
    declared += fmt::format(", const void* p{}", i);
    named += fmt::format("{}p{}", i == 0 ? "" : ", ", i);
  }
  plan_.source += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const void* in, void* out{}) {{\n"
      "  const Parameters p{{{{{}}}}};\n  const Target target{{out, {}}};\n  {}\n}}\n",
      threads, pass.function, declared, named, last ? static_cast<int>(problem_.dtype) : kFloat, body);
  current_ = pass.out;
  plan_.passes.push_back(std::move(pass));
}

std::string lambda(const std::string& section) {
  return fmt::format("[&](float x, long long c, long long i) {{ return {}(p, x, c, i); }}", section);
}

void PassPlanner::add_map(const Section& section) {
  const std::string shape = shape_of(problem_.extents_before(next_));
  const bool same = matches() || current_ != PassTensor::source;
  const std::string body =
      same ? fmt::format("map_same({}, target, {}, {});", source_expression(), shape, lambda(section.name))
           : fmt::format("map_transposed({}, target, {}, {}, {});", source_expression(),
                         problem_.layout == Layout::nhwc, shape, lambda(section.name));
  emit(body, pass_blocks(problem_.extents_before(next_).elements()), 256, next_);
}

std::string PassPlanner::call_of(std::size_t step, const std::string& before, const std::string& after) {
  const EpilogueStep& op = problem_.epilogue[step];
  const std::string shape = shape_of(problem_.extents_before(step));
  const std::string functions = lambda(before) + ", " + after;
  switch (op.op) {
    case EpilogueOp::softmax:
      return fmt::format("softmax({}, target, {}, {});", source_expression(), shape, functions);
    case EpilogueOp::group_norm:
    case EpilogueOp::instance_norm: {
      const std::int64_t groups =
          op.op == EpilogueOp::group_norm ? op.groups : problem_.extents_before(step).c;
      const std::string affine = op.affine ? fmt::format("p.at[{}], p.at[{}]", parameter_, parameter_ + 1)
                                           : std::string("nullptr, nullptr");
      if (op.affine) parameter_ += 2;
      return fmt::format("normalise({}, target, {}, {}, static_cast<float>({:a}), {}, {});",
                         source_expression(), shape, groups, op.numbers.at(0), affine, functions);
    }
    default:
      return fmt::format("reduce({}, target, {}, Axis::{}, Reduction::{}, {});", source_expression(), shape,
                         to_string(op.axis), to_string(op.op), functions);
  }
}

// Step `step` (a reduction, softmax or norm) with the section before it; after the last such step, with the
// rest too.
void PassPlanner::add_pass(std::size_t step, const Section& before) {
  const Extents extents = problem_.extents_before(step);
  const EpilogueOp op = problem_.epilogue[step].op;
  std::int64_t blocks = pass_blocks(problem_.extents_before(step + 1).elements());
  std::uint32_t threads = 256;
  if (op == EpilogueOp::softmax) blocks = pass_blocks(extents.elements() / extents.c);
  if (op == EpilogueOp::group_norm || op == EpilogueOp::instance_norm) {
    blocks = extents.n * (op == EpilogueOp::group_norm ? problem_.epilogue[step].groups : extents.c);
    threads = 512;
  }
  // A norm's own parameters come before those of the steps that follow it, so its call is written first.
  std::string body = call_of(step, before.name, "@after");
  std::size_t end = step + 1;
  std::string after = "[](float x, long long, long long) { return x; }";
  const bool rest_is_elementwise =
      std::all_of(problem_.epilogue.begin() + static_cast<std::ptrdiff_t>(end), problem_.epilogue.end(),
                  [](const EpilogueStep& s) { return is_elementwise(s.op); });
  next_ = end;
  if (rest_is_elementwise) {
    after = lambda(next_section().name);
    end = next_;
  }
  body.replace(body.find("@after"), 6, after);
  emit(body, static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, 0x7FFFFFFF)), threads, end);
}

PassPlan PassPlanner::plan() {
  if (!matches()) {
    plan_.source += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(256) kw_convert_input(const void* in, void* out) {{\n"
        "  map_transposed(Source{{in, KW_DTYPE, KW_NHWC}}, Target{{out, KW_DTYPE}}, {}, {},\n"
        "                 [](float x, long long, long long) {{ return x; }});\n}}\n",
        source_.nhwc, shape_of(problem_.input_extents()));
  }
  while (true) {
    const Section before = next_section();
    if (next_ == problem_.epilogue.size()) {
      plan_.in_place =
          plan_.passes.empty() && matches() && source_.parts == 1 && source_.dtype == problem_.dtype;
      if (!before.empty || (plan_.passes.empty() && !plan_.in_place)) add_map(before);
      break;
    }
    add_pass(next_, before);
    if (next_ == problem_.epilogue.size()) break;
  }
  return std::move(plan_);
}

}  // namespace

PassPlan plan_passes(const Problem& problem, const PassSource& source, std::string_view prefix) {
  return PassPlanner(problem, source, prefix).plan();
}

std::uint32_t pass_blocks(std::int64_t elements) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((elements + 255) / 256, 1, 1 << 20));
}

}  // namespace knobwise
