#include "kernels/cuda/direct_conv_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda/device_source.h"
#include "kernels/cuda/fused_epilogue.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Raised whenever this file changes what it generates from the same sources.
constexpr std::string_view kHostVersion = "1";
constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMostChannelsOfSoftmax = 512;
/// Along w. The kernel unrolls them: the time to compile grows with their square.
constexpr std::int64_t kMostTaps = 128;

FusedEpilogue epilogue_of(const Problem& problem) {
  std::string reason;
  const auto plan = plan_fused_epilogue(problem, reason);
  if (!plan) throw std::logic_error(reason);
  return *plan;
}

direct_conv::Triple triple(const std::array<std::int64_t, 3>& values) {
  return {static_cast<int>(values[0]), static_cast<int>(values[1]), static_cast<int>(values[2])};
}

/// Blocks of the launch that normalises, when the norm is one of its own.
std::int64_t normalise_blocks(const Problem& problem) {
  const Extents out = problem.conv_extents();
  const std::int64_t plane = out.d * out.h * out.w;
  return problem.n * problem.k * ((plane + direct_conv::kNormaliseChunk - 1) / direct_conv::kNormaliseChunk);
}

/// Bytes of shared memory that the input of a small tile (1 x 2 x 8 outputs of one channel) takes.
double least_staged_bytes(const Problem& p) {
  const auto reach = [&p](int axis, double outputs) {
    return (outputs - 1) * static_cast<double>(p.stride[axis]) +
           static_cast<double>(p.filter[axis] - 1) * static_cast<double>(p.dilation[axis]) + 1;
  };
  return 4 * reach(0, 1) * (reach(1, 2) + static_cast<double>(p.stride[1])) *
         (reach(2, 8) + 16 * static_cast<double>(p.stride[2]) + 32);
}

std::optional<std::string> size_problem(const Problem& problem, const DeviceInfo& device) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  const Extents out = problem.conv_extents();
  for (const std::int64_t extent : {problem.n, problem.c, problem.k, problem.in[0], problem.in[1],
                                    problem.in[2], out.d, out.h, out.w, problem.pad[0], problem.pad[1],
                                    problem.pad[2], problem.stride[0], problem.stride[1], problem.stride[2]})
    if (extent > kMost) return fmt::format("an extent of {} is above {}", extent, kMost);
  if (const double bytes = least_staged_bytes(problem);
      bytes > static_cast<double>(device.shared_bytes_per_block))
    return fmt::format("the filter reaches over {:.0f} bytes of input for the smallest tile; a block has {}",
                       bytes, device.shared_bytes_per_block);
  if (problem.filter[2] > kMostTaps)
    return fmt::format("direct_conv unrolls the taps of a row, at most {}, not {}", kMostTaps,
                       problem.filter[2]);
  return std::nullopt;
}

std::optional<std::string> epilogue_problem(const Problem& problem) {
  std::string reason;
  const auto epilogue = plan_fused_epilogue(problem, reason);
  if (!epilogue) return reason;
  if (epilogue->residual)
    return fmt::format("direct_conv does not fuse step {} of the epilogue, residual",
                       *epilogue->residual + 1);
  if (epilogue->softmax && problem.groups != 1) return "a fused softmax needs all channels in one group";
  if (epilogue->softmax && problem.k > kMostChannelsOfSoftmax)
    return fmt::format("a fused softmax holds at most {} channels in a block, not {}", kMostChannelsOfSoftmax,
                       problem.k);
  if (epilogue->norm && normalise_blocks(problem) > kMostBlocks)
    return "the norm would take more blocks than a grid has";
  return std::nullopt;
}

std::string tiling_source(const Configuration& configuration) {
  return fmt::format(
      "#define KW_WEIGHTS_SHARED {:d}\n#define KW_CHANNELS_FIRST {:d}\n#define KW_NORM_IN_BLOCK {:d}\n",
      configuration.text("weights_source") == "shared", configuration.text("grid_order") == "channels_first",
      configuration.text("norm_mode") == "block");
}

KernelLaunch pack_launch(const Problem& problem, const FusedEpilogue& epilogue, std::int64_t elements) {
  KernelLaunch launch{"direct_conv_pack", {1, 1, 1}, {256, 1, 1}, 0, {{Slot::parameter, 0}}};
  launch.grid[0] = static_cast<std::uint32_t>(std::clamp<std::int64_t>((elements + 255) / 256, 1, 4096));
  std::size_t parameters = 1;
  if (problem.bias) launch.arguments.push_back({Slot::parameter, parameters++});
  if (epilogue.norm && problem.epilogue[*epilogue.norm].affine) {
    launch.arguments.push_back({Slot::parameter, parameters++});
    launch.arguments.push_back({Slot::parameter, parameters++});
  }
  launch.arguments.push_back({Slot::packed, 0});
  return launch;
}

std::uint32_t shared_bytes(const direct_conv::Geometry& tiling, const FusedEpilogue& epilogue) {
  const int elements = epilogue.softmax ? tiling.softmax_elements()
                       : epilogue.norm  ? tiling.norm_elements()
                                        : 0;
  return 4 * static_cast<std::uint32_t>(tiling.shared_elements(elements));
}

class DirectConv final : public KernelFamily {
 public:
  std::string_view name() const override { return "direct_conv"; }
  Backend backend() const override { return Backend::cuda; }

  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override {
    if (device.compute_capability < 80)
      return fmt::format("direct_conv copies asynchronously, which needs compute capability 8.0, not {}.{}",
                         device.compute_capability / 10, device.compute_capability % 10);
    if (problem.dtype != DType::f32)
      return fmt::format("direct_conv computes f32 tensors, not {}", to_string(problem.dtype));
    if (problem.layout != Layout::nchw)
      return fmt::format("direct_conv computes layout nchw, not {}", to_string(problem.layout));
    if (auto reason = epilogue_problem(problem)) return reason;
    return size_problem(problem, device);
  }

  std::string_view space_json() const override {
    static const auto& text = never_destroyed(std::string(device_source("cuda_direct_conv.json")));
    return text;
  }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo&) const override {
    const FusedEpilogue epilogue = epilogue_of(problem);
    return {{"epilogue_reduce_depth", Value(std::int64_t{epilogue.reduction.has_value()})},
            {"epilogue_softmax", Value(std::int64_t{epilogue.softmax.has_value()})},
            {"epilogue_norm_channels", Value(epilogue.norm_channels(problem))}};
  }

  std::string source_hash() const override {
    return text_digest({kHostVersion, space_json()}, {"direct_conv_geometry.h", "direct_conv.cuh"});
  }

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    const direct_conv::Geometry tiling = direct_conv_tiling(problem, configuration);
    const direct_conv::Triple extents = tiling.tile;
    return {tiling.channels_per_block, tiling.whole_depth ? 1 : extents.d, extents.h, extents.w};
  }
};

KernelInstance DirectConv::instantiate(const Problem& problem, const Configuration& configuration,
                                       const DeviceInfo&) const {
  const FusedEpilogue epilogue = epilogue_of(problem);
  const direct_conv::Geometry tiling = direct_conv_tiling(problem, configuration);
  const bool affine = epilogue.norm && problem.epilogue[*epilogue.norm].affine;
  const std::int64_t channels = problem.groups * tiling.channel_blocks() * tiling.channels_per_block;
  KernelInstance instance;
  instance.source = source_prelude(problem, configuration) + tiling_source(configuration) +
                    epilogue.source(problem) + device_source("direct_conv_geometry.h") +
                    device_source("direct_conv.cuh");
  instance.packed_bytes = static_cast<std::size_t>(
      4 * (tiling.packed_elements() + channels * ((problem.bias ? 1 : 0) + (affine ? 2 : 0))));
  instance.prepare = {pack_launch(problem, epilogue, tiling.packed_elements())};
  instance.run = {KernelLaunch{"direct_conv",
                               {static_cast<std::uint32_t>(tiling.blocks()), 1, 1},
                               {static_cast<std::uint32_t>(tiling.threads()), 1, 1},
                               shared_bytes(tiling, epilogue),
                               {{Slot::input}, {Slot::packed}, {Slot::output}, {Slot::workspace}}}};
  if (epilogue.norm && configuration.text("norm_mode") == "workspace") {
    instance.workspace_bytes =
        static_cast<std::size_t>(problem.n * problem.k * tiling.tiles_per_sample() * 2 * 4);
    instance.run.push_back(KernelLaunch{"direct_conv_normalise",
                                        {static_cast<std::uint32_t>(normalise_blocks(problem)), 1, 1},
                                        {direct_conv::kNormaliseThreads, 1, 1},
                                        0,
                                        {{Slot::packed}, {Slot::output}, {Slot::workspace}}});
  }
  return instance;
}

}  // namespace

direct_conv::Geometry direct_conv_tiling(const Problem& problem, const Configuration& configuration) {
  const auto knob = [&](std::string_view name) { return static_cast<int>(configuration.integer(name)); };
  const Extents out = problem.conv_extents();
  return {static_cast<int>(problem.n),
          static_cast<int>(problem.c),
          static_cast<int>(problem.k),
          static_cast<int>(problem.groups),
          triple(problem.in),
          triple(problem.filter),
          triple(problem.stride),
          triple(problem.pad),
          triple(problem.dilation),
          triple({out.d, out.h, out.w}),
          {knob("tile_d"), knob("tile_h"), knob("tile_w")},
          {knob("pixels_d"), knob("pixels_h"), knob("pixels_w")},
          knob("vector_width"),
          knob("copy_width"),
          knob("channels_per_block"),
          knob("channels_per_thread"),
          knob("input_channels_per_step"),
          knob("tiles_per_block"),
          knob("stages"),
          configuration.text("weights_source") == "shared",
          configuration.text("grid_order") == "channels_first",
          epilogue_of(problem).reduction.has_value()};
}

const KernelFamily& cuda_direct_conv_family() {
  static const auto& family = never_destroyed(DirectConv());
  return family;
}

}  // namespace knobwise
