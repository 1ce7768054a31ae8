#include "kernels/cuda/implicit_gemm_family.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/cuda/device_source.h"
#include "kernels/cuda/fused_epilogue.h"
#include "kernels/cuda/unfused_epilogue.h"
#include "kernels/cuda/warpgroup_instruction.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Raised whenever this file changes what it generates from the same sources.
constexpr std::string_view kHostVersion = "2";
constexpr std::int64_t kMostSoftmaxChannels = 128;
/// Blocks that a cluster has on every device of compute capability 9.0, and positions that a block takes.
constexpr std::int64_t kMostCluster = 8, kMostBlockPositions = 512;

using implicit_gemm::Geometry;

FusedEpilogue epilogue_of(const Problem& problem) {
  std::string reason;
  const auto plan = plan_fused_epilogue(problem, reason);
  if (!plan) throw std::logic_error(reason);
  return *plan;
}

implicit_gemm::Triple triple(const std::array<std::int64_t, 3>& values) {
  return {static_cast<int>(values[0]), static_cast<int>(values[1]), static_cast<int>(values[2])};
}

/// Pads rows and planes so that a warp's reads meet the fewest bank conflicts; the smallest such pads.
void choose_pads(Geometry& tiling) {
  constexpr int kSteps = 6, kRowPads = 5, kPlanePads = 8;
  int best = -1, best_row = 0, best_plane = 0;
  for (int row = 0; row < kRowPads && best != 0; ++row)
    for (int plane = 0; plane < kPlanePads && best != 0; ++plane) {
      tiling.row_pad = row, tiling.plane_pad = plane;
      int extra = 0;
      for (int step = 0; step < std::min(kSteps, tiling.k_steps()) && (best < 0 || extra < best); ++step)
        extra += tiling.conflicts(step, 0);
      if (best < 0 || extra < best) best = extra, best_row = row, best_plane = plane;
      if (tiling.planes() == 1) break;
    }
  tiling.row_pad = best_row, tiling.plane_pad = best_plane;
}

std::optional<std::string> size_problem(const Problem& problem) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  const Extents out = problem.conv_extents();
  for (const std::int64_t extent : {problem.n, problem.c, problem.k, problem.in[0], problem.in[1],
                                    problem.in[2], out.d, out.h, out.w, problem.pad[0], problem.pad[1],
                                    problem.pad[2], problem.stride[0], problem.stride[1], problem.stride[2]})
    if (extent > kMost) return fmt::format("an extent of {} is above {}", extent, kMost);
  return std::nullopt;
}

/// Bytes of shared memory that the input of the smallest tile takes, in a mode of 8 bytes an entry.
double least_staged_bytes(const Problem& p, const FusedEpilogue& epilogue) {
  const auto reach = [&p](std::size_t axis, std::int64_t outputs) {
    return static_cast<double>((outputs - 1) * p.stride[axis] + (p.filter[axis] - 1) * p.dilation[axis] + 1);
  };
  const Extents out = p.conv_extents();
  const double channels = static_cast<double>(epilogue.reduction ? p.c / p.groups : 1);
  return 8 * std::ceil(channels / 4) * reach(0, epilogue.reduction ? out.d : 1) * reach(1, 1) *
         reach(2, std::min<std::int64_t>(out.w, 16));
}

/// Blocks that the positions of a sample take in the largest tiles.
std::int64_t least_tiles(const Problem& problem) {
  const Extents out = problem.conv_extents();
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t least = out.d * out.h * out.w;
  for (const std::int64_t d : {1, 2, 4})
    for (const std::int64_t h : {1, 2, 4, 8, 16})
      least = std::min(least, ceil_div(out.d, d) * ceil_div(out.h, h) *
                                  ceil_div(out.w, std::min(out.w, kMostBlockPositions / (d * h))));
  return least;
}

std::optional<std::string> epilogue_problem(const Problem& problem, const DeviceInfo& device) {
  std::string reason;
  const auto epilogue = plan_fused_epilogue(problem, reason);
  if (!epilogue) return reason;
  if (epilogue->softmax && (problem.groups != 1 || problem.k > kMostSoftmaxChannels))
    return fmt::format("a fused softmax takes at most {} channels of one group", kMostSoftmaxChannels);
  const std::int64_t blocks = device.compute_capability >= 90 ? kMostCluster : 1;
  if (epilogue->norm && least_tiles(problem) > blocks)
    return fmt::format("a fused norm takes the positions of a sample in at most {} blocks on this device",
                       blocks);
  if (epilogue->norm && (problem.k / problem.groups) % epilogue->norm_channels(problem) != 0)
    return "a group of the norm reaches over groups of the convolution";
  if (const double bytes = least_staged_bytes(problem, *epilogue);
      bytes > static_cast<double>(device.shared_bytes_per_block) / 2)
    return fmt::format(
        "the filter reaches over {:.0f} bytes of input for the smallest tile; a block has {} of shared "
        "memory",
        bytes, device.shared_bytes_per_block);
  return std::nullopt;
}

bool splits(const Configuration& configuration) {
  const std::string_view precision = configuration.text("precision");
  return precision.ends_with("x3") || precision == "fp16_e5m2";
}
bool is_tf32(const Configuration& configuration) {
  return configuration.text("precision").starts_with("tf32");
}

bool uses_warpgroups(const Configuration& configuration) {
  return configuration.text("instruction") == "wgmma";
}

/// Registers of a thread that stages and of one that multiplies once the block has shared them out; 0: as the
/// compiler has it.
std::pair<int, int> registers(const Geometry& tiling, int blocks) {
  constexpr int kAll = 65536, kMost = 240;
  if (!tiling.warpgroup || tiling.producer_warps == 0 || tiling.producer_warps % 4 != 0) return {0, 0};
  const int staging = tiling.producer_warps > 4 || tiling.consumers() > 256 ? 56 : 88;
  const int even = kAll / (blocks * tiling.threads()) / 8 * 8;
  const int rest =
      (even * tiling.threads() - staging * 32 * tiling.producer_warps) / tiling.consumers() / 8 * 8;
  return even > staging && even < kMost && rest > even ? std::pair{staging, std::min(rest, kMost)}
                                                       : std::pair{0, 0};
}

std::string tiling_source(const Geometry& tiling, int blocks, int cluster) {
  const auto [producer, consumer] = registers(tiling, blocks);
  std::string text;
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, int>>{
           {"WORD_ELEMENTS", tiling.word_elements},
           {"SPLITS", tiling.splits},
           {"GATHER_TAPS", tiling.gather_taps},
           {"TAPS_OUTERMOST", tiling.taps_outermost},
           {"WEIGHTS_SHARED", tiling.weights_shared},
           {"WEIGHTS_RESIDENT", tiling.weights_resident},
           {"WARPGROUP", tiling.warpgroup},
           {"WALK_INPUTS", tiling.walk_inputs},
           {"CHANNELS_FIRST", tiling.channels_first},
           {"ROW_PAD", tiling.row_pad},
           {"PLANE_PAD", tiling.plane_pad},
           {"CLUSTER", cluster},
           {"WAVE_BLOCKS", tiling.wave_blocks},
           {"PRODUCER_REGISTERS", producer},
           {"CONSUMER_REGISTERS", consumer},
           {"STAGED_REGISTERS", producer == 56 ? 15 : 40}})
    text += fmt::format("#define KW_{} {}\n", name, value);
  return text;
}

KernelLaunch pack_launch(const Problem& problem, bool affine, std::int64_t entries) {
  KernelLaunch launch{"implicit_gemm_pack", {1, 1, 1}, {256, 1, 1}, 0, {{Slot::parameter, 0}}};
  launch.grid[0] = static_cast<std::uint32_t>(std::clamp<std::int64_t>((entries + 255) / 256, 1, 4096));
  const std::size_t count = 1 + (problem.bias ? 1 : 0) + (affine ? 2 : 0);
  for (std::size_t i = 1; i < count; ++i) launch.arguments.push_back({Slot::parameter, i});
  launch.arguments.push_back({Slot::packed, 0});
  return launch;
}

/// What is the same for every problem and configuration.
const std::initializer_list<std::string_view> kSources = {"mbarrier.cuh",
                                                          "matrix_operands.cuh",
                                                          "implicit_gemm_geometry.h",
                                                          "implicit_gemm_operands.cuh",
                                                          "implicit_gemm_barriers.cuh",
                                                          "implicit_gemm_staging.cuh",
                                                          "implicit_gemm_place.cuh",
                                                          "implicit_gemm_products.cuh",
                                                          "implicit_gemm_warpgroup.cuh",
                                                          "implicit_gemm_epilogue.cuh",
                                                          "implicit_gemm_output.cuh",
                                                          "implicit_gemm.cuh"};

std::string kernel_source() {
  std::string text;
  for (const std::string_view file : kSources) text += device_source(file);
  return text;
}

class ImplicitGemm final : public KernelFamily {
 public:
  std::string_view name() const override { return "implicit_gemm"; }
  Backend backend() const override { return Backend::cuda; }

  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override {
    if (device.compute_capability < 80)
      return fmt::format("implicit_gemm uses matrix instructions of compute capability 8.0, not {}.{}",
                         device.compute_capability / 10, device.compute_capability % 10);
    if (auto reason = epilogue_problem(problem, device)) return reason;
    return size_problem(problem);
  }

  std::string_view space_json() const override {
    static const auto& text = never_destroyed(std::string(device_source("cuda_implicit_gemm.json")));
    return text;
  }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo&) const override {
    const FusedEpilogue epilogue = epilogue_of(problem);
    return {{"epilogue_reduce_depth", Value(std::int64_t{epilogue.reduction.has_value()})},
            {"epilogue_softmax", Value(std::int64_t{epilogue.softmax.has_value()})},
            {"epilogue_norm_channels", Value(epilogue.norm_channels(problem))},
            {"dtype", Value(std::string(to_string(problem.dtype)))},
            {"layout", Value(std::string(to_string(problem.layout)))}};
  }

  std::string source_hash() const override { return text_digest({kHostVersion, space_json()}, kSources); }

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    const Geometry tiling = implicit_gemm_tiling(problem, configuration, 1);
    return {tiling.channels_per_block, tiling.tile.d, tiling.tile.h, tiling.tile.w};
  }
};

std::string instruction_source(const Geometry& tiling, const Configuration& configuration) {
  if (!tiling.warpgroup) return "";
  return warpgroup_instruction(tiling.slices() * tiling.warp_channels, configuration.text("precision"),
                               LeftOperand::registers);
}

/// One kernel for the whole problem.
KernelInstance one_kernel(const Problem& problem, const Configuration& configuration,
                          const DeviceInfo& device) {
  const FusedEpilogue epilogue = epilogue_of(problem);
  const Geometry tiling = implicit_gemm_tiling(problem, configuration, device.multiprocessors);
  const bool affine = epilogue.norm && problem.epilogue[*epilogue.norm].affine;
  const int cluster = epilogue.norm ? static_cast<int>(tiling.tiles_per_sample()) : 1;
  KernelInstance instance;
  instance.source = source_prelude(problem, configuration) +
                    tiling_source(tiling, static_cast<int>(configuration.integer("min_blocks")), cluster) +
                    epilogue.source(problem) + instruction_source(tiling, configuration) + kernel_source();
  instance.packed_bytes =
      static_cast<std::size_t>(tiling.packed_weight_bytes() +
                               4LL * tiling.padded_channels() * ((problem.bias ? 1 : 0) + (affine ? 2 : 0)));
  instance.prepare = {pack_launch(problem, affine, tiling.packed_weight_bytes() / tiling.entry_bytes())};
  instance.run = {
      KernelLaunch{"implicit_gemm",
                   {static_cast<std::uint32_t>(tiling.blocks()), 1, 1},
                   {static_cast<std::uint32_t>(tiling.threads()), 1, 1},
                   static_cast<std::uint32_t>(tiling.shared_bytes(epilogue.norm.has_value())),
                   {{Slot::input}, {Slot::packed}, {Slot::output}, residual_argument(problem, epilogue)}}};
  return instance;
}

KernelInstance ImplicitGemm::instantiate(const Problem& problem, const Configuration& configuration,
                                         const DeviceInfo& device) const {
  const int parts = static_cast<int>(configuration.integer("split_k"));
  if (parts == 1) return one_kernel(problem, configuration, device);
  // Sums of parts of the reduction, then a pass that adds them and does all the rest.
  Problem convolution = problem;
  convolution.bias = false;
  convolution.epilogue.clear();
  KernelInstance instance = one_kernel(convolution, configuration, device);
  append_passes(instance, problem, PassSource{problem.layout == Layout::nhwc, false, 0, DType::f32, parts},
                "kw_join");
  return instance;
}

}  // namespace

Geometry implicit_gemm_tiling(const Problem& problem, const Configuration& configuration,
                              int multiprocessors) {
  const auto knob = [&](std::string_view name) { return static_cast<int>(configuration.integer(name)); };
  const Extents out = problem.conv_extents();
  Geometry tiling{static_cast<int>(problem.n),
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
                  knob("channels_per_block"),
                  knob("warp_positions"),
                  knob("warp_channels"),
                  knob("input_channels_per_step"),
                  knob("tiles_per_block"),
                  multiprocessors * knob("min_blocks"),
                  knob("split_k"),
                  knob("stages"),
                  knob("producer_warps"),
                  knob("store_width"),
                  knob("store_channels"),
                  static_cast<int>(knob("split_k") > 1 ? sizeof(float) : size_of(problem.dtype)),
                  problem.layout == Layout::nhwc,
                  knob("vector_width"),
                  is_tf32(configuration) ? 1 : 2,
                  splits(configuration) ? 2 : 1,
                  configuration.text("gather") == "taps",
                  configuration.text("reduction_order") == "taps_outermost",
                  configuration.text("weights_source") != "global",
                  configuration.text("weights_source") == "resident",
                  uses_warpgroups(configuration),
                  configuration.text("grid_order") == "channels_first",
                  epilogue_of(problem).reduction.has_value(),
                  configuration.text("depth_walk") == "inputs",
                  0,
                  0};
  choose_pads(tiling);
  return tiling;
}

const KernelFamily& cuda_implicit_gemm_family() {
  static const auto& family = never_destroyed(ImplicitGemm());
  return family;
}

}  // namespace knobwise
