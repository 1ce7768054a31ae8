#include "bench/plain_conv_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "embedded/plain_conv_sources.h"
#include "kernels/cuda/device_source.h"
#include "kernels/cuda/fused_epilogue.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Raised whenever this file changes what it generates from the same sources.
constexpr std::string_view kHostVersion = "1";
constexpr std::int64_t kMostTaps = 128;  // of a plane; the kernel unrolls them

std::string_view text_of(std::string_view file) {
  for (const auto& [name, content] : plain_conv_sources())
    if (name == file) return content;
  throw std::logic_error(std::string(file));
}

std::optional<FusedEpilogue> epilogue_of(const Problem& problem) {
  std::string reason;
  return plan_fused_epilogue(problem, reason);
}

plain_conv::Triple triple(const std::array<std::int64_t, 3>& values) {
  return {static_cast<int>(values[0]), static_cast<int>(values[1]), static_cast<int>(values[2])};
}

std::string geometry_source(const plain_conv::Geometry& g) {
  const auto text = [](const plain_conv::Triple& t) { return fmt::format("{{{}, {}, {}}}", t.d, t.h, t.w); };
  return fmt::format(
      "constexpr KW_HOST_DEVICE knobwise::plain_conv::Geometry geometry() {{\n"
      "  return {{{}, {}, {}, {}, {}, {}, {}, {:d}, {:d}, {:d}, {}, {}, {:d}, {}, {}, {}, {}, {}, {},\n"
      "          static_cast<knobwise::plain_conv::Input>({}), {:d}, {:d}}};\n}}\n",
      g.n, g.c, g.k, text(g.filter), text(g.stride), text(g.dilation), text(g.out), g.reduce_depth, g.softmax,
      g.norm, g.tile_h, g.tile_w, g.flat, g.positions_per_thread, g.channels_per_block, g.channels_per_thread,
      g.passes, g.depth_groups, g.input_channels_per_step, static_cast<int>(g.input), g.weights_shared,
      g.outputs_shared);
}

class PlainConv final : public KernelFamily {
 public:
  std::string_view name() const override { return "plain_conv"; }
  Backend backend() const override { return Backend::cuda; }

  std::optional<std::string> unsupported_reason(const Problem& problem, const DeviceInfo&) const override {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const auto epilogue = epilogue_of(problem);
    if (problem.dtype != DType::f32 || problem.layout != Layout::nchw || problem.groups != 1 || !epilogue ||
        epilogue->residual || problem.filter[1] * problem.filter[2] > kMostTaps)
      return "plain_conv is for f32, nchw, no groups, small filters and an epilogue that direct_conv fuses";
    // Channels are padded to whole blocks, to less than three times as many.
    if (problem.input_extents().elements() > kMost || problem.conv_extents().elements() > kMost ||
        3 * problem.k * problem.fan_in() > kMost)
      return "plain_conv is for tensors of at most 2^30 elements";
    return std::nullopt;
  }

  std::string_view space_json() const override { return text_of("plain_conv.json"); }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo&) const override {
    const FusedEpilogue epilogue = epilogue_of(problem).value();
    return {{"epilogue_reduce_depth", Value(std::int64_t{epilogue.reduction.has_value()})},
            {"epilogue_softmax", Value(std::int64_t{epilogue.softmax.has_value()})},
            {"epilogue_norm_channels", Value(epilogue.norm_channels(problem))}};
  }

  std::string source_hash() const override {
    return text_digest(
        {kHostVersion, space_json(), text_of("plain_conv_geometry.h"), text_of("plain_conv.cuh")}, {});
  }

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    const plain_conv::Geometry g = plain_conv_geometry(problem, configuration);
    return {g.channels_per_block, 1, g.tile_h, g.tile_w};
  }
};

KernelInstance PlainConv::instantiate(const Problem& problem, const Configuration& configuration,
                                      const DeviceInfo&) const {
  const FusedEpilogue epilogue = epilogue_of(problem).value();
  const plain_conv::Geometry g = plain_conv_geometry(problem, configuration);
  KernelInstance instance;
  instance.source = source_prelude(problem, configuration) + epilogue.source(problem) +
                    std::string(text_of("plain_conv_geometry.h")) + geometry_source(g) +
                    std::string(text_of("plain_conv.cuh"));
  const std::int64_t packed = std::int64_t{g.packed_channels()} * g.c * g.taps();
  instance.packed_bytes = static_cast<std::size_t>(4 * packed);
  const auto pack_blocks = static_cast<std::uint32_t>(std::clamp<std::int64_t>(packed / 256, 1, 1024));
  instance.prepare = {
      {"plain_conv_pack", {pack_blocks, 1, 1}, {256, 1, 1}, 0, {{Slot::parameter, 0}, {Slot::packed}}}};
  // The kernel reads no parameter that the problem does not have.
  const std::size_t first = problem.bias ? 2 : 1;
  const bool affine = epilogue.norm && problem.epilogue[*epilogue.norm].affine;
  instance.run = {{"plain_conv",
                   {static_cast<std::uint32_t>(g.blocks()), 1, 1},
                   {static_cast<std::uint32_t>(g.threads()), 1, 1},
                   4 * static_cast<std::uint32_t>(g.shared_elements()),
                   {{Slot::input},
                    {Slot::packed},
                    {Slot::output},
                    {Slot::parameter, problem.bias ? 1u : 0u},
                    {Slot::parameter, affine ? first : 0},
                    {Slot::parameter, affine ? first + 1 : 0}}}};
  return instance;
}

}  // namespace

plain_conv::Geometry plain_conv_geometry(const Problem& problem, const Configuration& configuration) {
  const auto knob = [&](std::string_view name) { return static_cast<int>(configuration.integer(name)); };
  const auto is = [&](std::string_view name, std::string_view value) {
    return configuration.text(name) == value;
  };
  const FusedEpilogue epilogue = epilogue_of(problem).value();
  const Extents out = problem.conv_extents();
  return {static_cast<int>(problem.n),
          static_cast<int>(problem.c),
          static_cast<int>(problem.k),
          triple(problem.filter),
          triple(problem.stride),
          triple(problem.dilation),
          triple({out.d, out.h, out.w}),
          epilogue.reduction.has_value(),
          epilogue.softmax.has_value(),
          epilogue.norm.has_value(),
          knob("tile_h"),
          knob("tile_w"),
          is("position_order", "flat"),
          knob("positions_per_thread"),
          knob("channels_per_block"),
          knob("channels_per_thread"),
          knob("passes"),
          knob("depth_groups"),
          knob("input_channels_per_step"),
          is("input_source", "global")  ? plain_conv::Input::global
          : is("input_source", "patch") ? plain_conv::Input::patch
                                        : plain_conv::Input::halo,
          is("weights_source", "shared"),
          is("outputs", "shared")};
}

const KernelFamily& plain_conv_family() {
  static const auto& family = never_destroyed(PlainConv());
  return family;
}

}  // namespace knobwise
