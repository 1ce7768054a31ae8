#include "kernels/cuda/reference_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/device_source.h"
#include "kernels/cuda/reference_tile.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

constexpr std::uint32_t kThreads = ReferenceTile::kThreads;
constexpr std::int64_t kScratchBytes = std::int64_t{1} << 30;
constexpr std::int64_t kHeaderBytes = 256;
constexpr int kFloat64 = 3;  // the number of fp64 in element.cuh

std::int64_t bytes_of(const Extents& extents, std::int64_t samples) {
  return samples * (extents.elements() / extents.n) * 8;
}

// Samples whose float64 convolution output fits the scratch; at least one.
std::int64_t chunk_of(const Problem& problem) {
  return std::clamp<std::int64_t>(kScratchBytes / bytes_of(problem.conv_extents(), 1), 1, problem.n);
}

std::uint32_t blocks_for(std::int64_t threads) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, 1 << 20));
}

// C++ of an element-wise step on a double x: the value of the expression is the result. Written so that NaN
// stays NaN.
std::string pointwise_expression(const EpilogueStep& step) {
  const auto number = [&step](std::size_t i) { return fmt::format("{:a}", step.numbers.at(i)); };
  switch (step.op) {
    case EpilogueOp::add:
      return "x + " + number(0);
    case EpilogueOp::sub:
      return "x - " + number(0);
    case EpilogueOp::mul:
      return "x * " + number(0);
    case EpilogueOp::div:
      return "x / " + number(0);
    case EpilogueOp::relu:
      return "x < 0 ? 0 : x";
    case EpilogueOp::leaky_relu:
      return fmt::format("x < 0 ? x * {} : x", number(0));
    case EpilogueOp::clamp:
      return fmt::format("x < {0} ? {0} : x > {1} ? {1} : x", number(0), number(1));
    case EpilogueOp::sigmoid:
      return "1 / (1 + exp(-x))";
    case EpilogueOp::tanh:
      return "tanh(x)";
    case EpilogueOp::gelu:
      return "x * normcdf(x)";
    case EpilogueOp::silu:
      return "x / (1 + exp(-x))";
    case EpilogueOp::mish:
      return "x * tanh(x > 40 ? x : log1p(exp(x)))";
    case EpilogueOp::hardswish:
      return "x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6";
    default:
      return {};
  }
}

// Builds the translation unit and its launches step by step.
class ReferenceBuilder {
 public:
  ReferenceBuilder(const Problem& problem, int out_dtype);
  KernelInstance build();

 private:
  void add_convolution();
  void add_step(std::size_t index);
  void add_reduction(std::size_t index);
  void add_norm(std::size_t index);
  void add_store();
  // Defines kernel `name` with the statement `body` and queues it for every chunk.
  void add_kernel(const std::string& name, const std::string& body, std::uint32_t blocks,
                  std::vector<BufferRef> arguments);
  std::string shape(std::size_t step) const;
  std::string current() const { return fmt::format("{}ll", offsets_[which_]); }
  BufferRef next_parameter() { return {Slot::parameter, parameter_++}; }

  const Problem& problem_;
  std::int64_t chunk_;
  std::int64_t offsets_[2];  // of the two scratch tensors, in bytes from the start of the workspace
  int which_ = 0;            // the one that holds the values
  std::size_t parameter_ = 0;
  std::vector<KernelLaunch> chunk_launches_;
  KernelInstance instance_;
};

ReferenceBuilder::ReferenceBuilder(const Problem& problem, int out_dtype)
    : problem_(problem), chunk_(chunk_of(problem)) {
  const std::int64_t first = bytes_of(problem.conv_extents(), chunk_);
  offsets_[0] = kHeaderBytes;
  offsets_[1] = kHeaderBytes + first;
  std::int64_t second = 0;
  for (std::size_t i = 0; i < problem.epilogue.size(); ++i) {
    if (problem.extents_before(i + 1) == problem.extents_before(i)) continue;
    second = std::max(second, bytes_of(problem.extents_before(i + 1), chunk_));
  }
  instance_.workspace_bytes = static_cast<std::size_t>(kHeaderBytes + first + second);
  instance_.source =
      source_prelude(problem, {}) + device_source("reference_tile.h") + device_source("element.cuh") +
      fmt::format("#define KW_REF_CHUNK {}LL\n#define KW_REF_DTYPE {}\n#define KW_REF_OUT_DTYPE {}\n", chunk_,
                  static_cast<int>(problem.dtype), out_dtype) +
      device_source("reference.cuh");
}

std::string ReferenceBuilder::shape(std::size_t step) const {
  const Extents extents = problem_.extents_before(step);
  return fmt::format("Shape{{{}, {}, {}, {}}}", extents.c, extents.d, extents.h, extents.w);
}

void ReferenceBuilder::add_kernel(const std::string& name, const std::string& body, std::uint32_t blocks,
                                  std::vector<BufferRef> arguments) {
  std::string parameters = "void* workspace";
  for (std::size_t i = 0; i < arguments.size(); ++i) parameters += fmt::format(", void* p{}", i);
  instance_.source += fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 2) {}({}) {{ {} }}\n",
                                  kThreads, name, parameters, body);
  arguments.insert(arguments.begin(), BufferRef{Slot::workspace});
  chunk_launches_.push_back(KernelLaunch{name, {blocks, 1, 1}, {kThreads, 1, 1}, 0, std::move(arguments)});
}

void ReferenceBuilder::add_convolution() {
  const std::int64_t outputs = problem_.k / problem_.groups;
  const ReferenceTile tile = reference_tile(static_cast<int>(outputs));
  const Extents out = problem_.conv_extents();
  const std::int64_t positions = chunk_ * out.d * out.h * out.w;
  const std::int64_t blocks = (positions + tile.positions() - 1) / tile.positions() * problem_.groups *
                              ((outputs + tile.channels() - 1) / tile.channels());
  std::vector<BufferRef> arguments = {{Slot::input}, next_parameter()};
  if (problem_.bias) arguments.push_back(next_parameter());
  add_kernel("kw_convolution",
             fmt::format("convolve(workspace, p0, p1, {}, {});", problem_.bias ? "p2" : "nullptr", current()),
             static_cast<std::uint32_t>(std::min<std::int64_t>(blocks, 0xFFFFFFFF)), arguments);
}

void ReferenceBuilder::add_reduction(std::size_t index) {
  const EpilogueStep& step = problem_.epilogue[index];
  const Extents extents = problem_.extents_before(index);
  const auto [extent, distance] = [&]() -> std::pair<std::int64_t, std::int64_t> {
    switch (step.axis) {
      case Axis::channel:
        return {extents.c, extents.d * extents.h * extents.w};
      case Axis::depth:
        return {extents.d, extents.h * extents.w};
      case Axis::height:
        return {extents.h, extents.w};
      default:
        return {extents.w, 1};
    }
  }();
  if (extent == 1) return;  // the values stay as they are
  const std::string from = current();
  which_ = 1 - which_;
  add_kernel(fmt::format("kw_step{}", index),
             fmt::format("reduce(workspace, {}, {}, {}, {}, {}, Reduction::{});", from, current(),
                         shape(index), extent, distance, to_string(step.op)),
             blocks_for(bytes_of(problem_.extents_before(index + 1), chunk_) / 8), {});
}

void ReferenceBuilder::add_norm(std::size_t index) {
  const EpilogueStep& step = problem_.epilogue[index];
  const std::int64_t groups =
      step.op == EpilogueOp::group_norm ? step.groups : problem_.extents_before(index).c;
  std::vector<BufferRef> arguments;
  if (step.affine) arguments = {next_parameter(), next_parameter()};
  add_kernel(fmt::format("kw_step{}", index),
             fmt::format("normalise(workspace, {}, {}, {}, {:a}, {});", current(), shape(index), groups,
                         step.numbers.at(0), step.affine ? "p0, p1" : "nullptr, nullptr"),
             blocks_for(chunk_ * groups * kThreads), arguments);
}

void ReferenceBuilder::add_step(std::size_t index) {
  const EpilogueStep& step = problem_.epilogue[index];
  const std::string name = fmt::format("kw_step{}", index);
  const Extents extents = problem_.extents_before(index);
  const std::uint32_t blocks = blocks_for(bytes_of(extents, chunk_) / 8);
  switch (step.op) {
    case EpilogueOp::residual:
      add_kernel(name, fmt::format("add_residual(workspace, {}, {}, p0);", current(), shape(index)), blocks,
                 {next_parameter()});
      break;
    case EpilogueOp::min:
    case EpilogueOp::max:
    case EpilogueOp::mean:
    case EpilogueOp::sum:
      add_reduction(index);
      break;
    case EpilogueOp::softmax:
      add_kernel(name, fmt::format("softmax(workspace, {}, {});", current(), shape(index)),
                 blocks_for(chunk_ * extents.d * extents.h * extents.w), {});
      break;
    case EpilogueOp::group_norm:
    case EpilogueOp::instance_norm:
      add_norm(index);
      break;
    default:
      add_kernel(name,
                 fmt::format("pointwise(workspace, {}, {}, [](double x) -> double {{ return {}; }});",
                             current(), shape(index), pointwise_expression(step)),
                 blocks, {});
  }
}

void ReferenceBuilder::add_store() {
  const std::size_t last = problem_.epilogue.size();
  add_kernel("kw_store", fmt::format("store(workspace, {}, {}, p0);", current(), shape(last)),
             blocks_for(bytes_of(problem_.extents_before(last), chunk_) / 8), {{Slot::output}});
}

KernelInstance ReferenceBuilder::build() {
  add_convolution();
  for (std::size_t i = 0; i < problem_.epilogue.size(); ++i) add_step(i);
  add_store();
  const auto single = [](const char* function) {
    return KernelLaunch{function, {1, 1, 1}, {1, 1, 1}, 0, {BufferRef{Slot::workspace}}};
  };
  instance_.run.push_back(single("kw_begin"));
  for (std::int64_t first = 0; first < problem_.n; first += chunk_) {
    instance_.run.insert(instance_.run.end(), chunk_launches_.begin(), chunk_launches_.end());
    instance_.run.push_back(single("kw_next"));
  }
  return std::move(instance_);
}

class ReferenceFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "reference"; }
  Backend backend() const override { return Backend::cuda; }
  std::optional<std::string> unsupported_reason(const Problem&, const DeviceInfo&) const override {
    return {};
  }
  std::string_view space_json() const override {
    static const auto& text = never_destroyed(std::string(device_source("cuda_reference.json")));
    return text;
  }
  std::string source_hash() const override {
    return text_digest({"2", space_json()}, {"reference_tile.h", "element.cuh", "reference.cuh"});
  }
  KernelInstance instantiate(const Problem& problem, const Configuration&, const DeviceInfo&) const override {
    return ReferenceBuilder(problem, static_cast<int>(problem.dtype)).build();
  }
};

}  // namespace

const KernelFamily& cuda_reference_family() {
  static const auto& family = never_destroyed(ReferenceFamily());
  return family;
}

KernelInstance float64_reference(const Problem& problem) {
  return ReferenceBuilder(problem, kFloat64).build();
}

}  // namespace knobwise
