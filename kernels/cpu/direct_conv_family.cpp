#include "kernels/cpu/direct_conv_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "embedded/cpu_direct_conv_sources.h"
#include "kernels/cpu/epilogue_plan.h"
#include "kernels/cpu/epilogue_steps.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Raised whenever this file changes what it generates from the same sources.
constexpr std::string_view kHostVersion = "1";

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::string_view embedded(std::string_view name) {
  for (const auto& [file, text] : cpu_direct_conv_sources())
    if (file == name) return text;
  throw std::logic_error(fmt::format("{} is not embedded", name));
}

/// What a thread's scratch may take: its level-2 cache, or a common size of one where that is unknown.
std::int64_t scratch_bytes(const DeviceInfo& device) {
  return std::max<std::int64_t>(device.l2_bytes, 512 * 1024);
}

/// The scratch of the smallest tile: one channel, the filter's depth, one row (of up to 127: see the space).
std::int64_t least_scratch_bytes(const Problem& p) {
  std::int64_t floats = (p.filter[0] - 1) * p.dilation[0] + 1;
  for (const int axis : {1, 2}) {
    const std::int64_t span = (p.filter[axis] - 1) * p.dilation[axis], stride = p.stride[axis];
    floats *= std::min(stride, span + 1) * (span / stride + (axis == 2 ? 128 : 64));
  }
  return floats * 4 + 64 * 1024;
}

/// A knob cut to the problem's extent, as the device source cuts it.
std::int64_t extent(const Configuration& configuration, std::string_view knob, std::int64_t most) {
  return std::min(configuration.integer(knob), most);
}

OutputTile tile_of(const Problem& problem, const Configuration& configuration) {
  const Extents conv = problem.conv_extents();
  return {extent(configuration, "channels_per_block", problem.k / problem.groups),
          extent(configuration, "tile_d", conv.d), extent(configuration, "tile_h", conv.h),
          extent(configuration, "tile_w", conv.w)};
}

/// Constants and functors that the device source expects; see kernels/cpu/direct_conv.cpp.
std::string epilogue_constants(const Problem& problem, const EpiloguePlan& plan) {
  int reduction = 0;
  if (plan.reduction) {
    const EpilogueOp op = problem.epilogue[*plan.reduction].op;
    reduction = op == EpilogueOp::min ? 1 : op == EpilogueOp::max ? 2 : op == EpilogueOp::mean ? 3 : 4;
  }
  const bool softmax = plan.combine && problem.epilogue[*plan.combine].op == EpilogueOp::softmax;
  const bool norm = plan.combine && !softmax;
  std::string text = fmt::format(
      "#define EPILOGUE_REDUCTION {}\n#define EPILOGUE_SOFTMAX {:d}\n#define EPILOGUE_NORM {:d}\n", reduction,
      softmax, norm);
  if (norm) {
    const EpilogueStep& step = problem.epilogue[*plan.combine];
    text += fmt::format(
        "#define EPILOGUE_NORM_CHANNELS {}\n#define EPILOGUE_NORM_EPSILON {:.17g}\n"
        "#define EPILOGUE_NORM_AFFINE {:d}\n",
        norm_channels(problem, *plan.combine), step.numbers.at(0), step.affine);
  }
  return text;
}

std::string epilogue_functors(const Problem& problem, const EpiloguePlan& plan) {
  const std::size_t first = end_of_elementwise(problem, 0);
  const std::size_t second = plan.reduction ? end_of_elementwise(problem, *plan.reduction + 1) : first;
  const std::size_t third = plan.combine ? *plan.combine + 1 : plan.end;
  return elementwise_functor(problem, 0, first, "elementwise_0") +
         elementwise_functor(problem, plan.reduction ? *plan.reduction + 1 : second, second,
                             "elementwise_1") +
         elementwise_functor(problem, third, plan.end, "elementwise_2");
}

class DirectConv : public KernelFamily {
 public:
  std::string_view name() const override { return "direct_conv"; }
  Backend backend() const override { return Backend::cpu; }

  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override {
    if (problem.dtype != DType::f32)
      return fmt::format("direct_conv on the CPU computes f32 tensors, not {}", to_string(problem.dtype));
    if (problem.layout != Layout::nchw) return "direct_conv on the CPU computes layout nchw, not nhwc";
    if (least_scratch_bytes(problem) > scratch_bytes(device))
      return fmt::format("the filter's reach takes {} bytes of scratch a thread; at most {} fit its cache",
                         least_scratch_bytes(problem), scratch_bytes(device));
    return std::nullopt;
  }

  std::string_view space_json() const override { return embedded("cpu_direct_conv.json"); }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo& device) const override {
    const EpiloguePlan plan = plan_epilogue(problem, true);
    const bool softmax = plan.combine && problem.epilogue[*plan.combine].op == EpilogueOp::softmax;
    const std::int64_t norm = plan.combine && !softmax ? norm_channels(problem, *plan.combine) : 0;
    return {{"epilogue_fusible", Value(plan.fuses())},
            {"epilogue_reduction", Value(plan.reduction.has_value())},
            {"epilogue_softmax", Value(softmax)},
            {"epilogue_norm_channels", Value(norm)},
            {"scratch_bytes", Value(scratch_bytes(device))}};
  }

  std::string source_hash() const override {
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, kHostVersion.data(), kHostVersion.size());
    for (const auto& [name, text] : cpu_direct_conv_sources())
      XXH3_128bits_update(&state, text.data(), text.size());
    const XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    return tile_of(problem, configuration);
  }
};

std::int64_t tasks_of(const Problem& problem, const Configuration& configuration, const EpiloguePlan& plan) {
  const Extents conv = problem.conv_extents();
  const OutputTile tile = tile_of(problem, configuration);
  const std::int64_t tiles = ceil_div(conv.d, tile.d) * ceil_div(conv.h, tile.h) * ceil_div(conv.w, tile.w);
  const std::int64_t blocks = problem.groups * ceil_div(problem.k / problem.groups, tile.k);
  if (!plan.combine) return problem.n * tiles * blocks;
  const bool softmax = problem.epilogue[*plan.combine].op == EpilogueOp::softmax;
  return problem.n * (softmax ? tiles : blocks);
}

KernelLaunch convolution(const Problem& problem, const Configuration& configuration, const EpiloguePlan& plan,
                         BufferRef output, int threads) {
  KernelLaunch launch;
  launch.function = "direct_conv";
  launch.grid[0] = static_cast<std::uint32_t>(tasks_of(problem, configuration, plan));
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.arguments = {{Slot::input, 0}, {Slot::packed, 0}, output};
  if (problem.bias) launch.arguments.push_back({Slot::parameter, 1});
  if (plan.combine && problem.epilogue[*plan.combine].affine) {
    const std::size_t parameter = first_parameter(problem, *plan.combine);
    launch.arguments.push_back({Slot::parameter, parameter});
    launch.arguments.push_back({Slot::parameter, parameter + 1});
  }
  return launch;
}

KernelLaunch packing(const Problem& problem, const Configuration& configuration, int threads) {
  KernelLaunch launch;
  launch.function = "pack_weights";
  const std::int64_t k = problem.k / problem.groups;
  launch.grid[0] =
      static_cast<std::uint32_t>(problem.groups * ceil_div(k, configuration.integer("channels_per_thread")));
  launch.block[0] = static_cast<std::uint32_t>(threads);
  launch.arguments = {{Slot::parameter, 0}, {Slot::packed, 0}};
  return launch;
}

KernelInstance DirectConv::instantiate(const Problem& problem, const Configuration& configuration,
                                       const DeviceInfo&) const {
  const EpiloguePlan plan = plan_epilogue(problem, configuration.integer("fuse_epilogue") != 0);
  const int threads = static_cast<int>(configuration.integer("threads"));
  const EpilogueSteps steps = epilogue_steps(problem, plan.end, threads);
  KernelInstance instance;
  instance.source = source_prelude(problem, configuration) + epilogue_constants(problem, plan);
  instance.source += embedded("direct_conv_vectors.h");
  instance.source += epilogue_functors(problem, plan);
  instance.source += embedded("direct_conv_epilogues.h");
  instance.source += embedded("direct_conv.cpp");
  instance.source += steps.source;
  instance.prepare.push_back(packing(problem, configuration, threads));
  instance.run.push_back(convolution(problem, configuration, plan, steps.convolution_output, threads));
  instance.run.insert(instance.run.end(), steps.launches.begin(), steps.launches.end());
  // bf16 packs channels in pairs, the last alone where their number is odd.
  const std::int64_t c = problem.c / problem.groups;
  const std::int64_t depth = configuration.text("precision") == "bf16" ? ceil_div(c, 2) : c;
  instance.packed_bytes =
      static_cast<std::size_t>(problem.k * depth * (problem.fan_in() / c)) * sizeof(float);
  instance.workspace_bytes = steps.workspace_bytes;
  return instance;
}

}  // namespace

const KernelFamily& cpu_direct_conv_family() {
  static const auto& family = never_destroyed(DirectConv());
  return family;
}

}  // namespace knobwise
