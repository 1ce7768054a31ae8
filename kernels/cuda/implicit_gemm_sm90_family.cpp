#include "kernels/cuda/implicit_gemm_sm90_family.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/device_source.h"
#include "kernels/cuda/fused_epilogue.h"
#include "kernels/cuda/warpgroup_instruction.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Raised whenever this file changes what it generates from the same sources.
constexpr std::string_view kHostVersion = "3";

using implicit_gemm_sm90::Geometry;

implicit_gemm_sm90::Triple triple(const std::array<std::int64_t, 3>& values) {
  return {static_cast<int>(values[0]), static_cast<int>(values[1]), static_cast<int>(values[2])};
}

bool splits(const Configuration& configuration) {
  return configuration.text("precision").ends_with("x3");
}
bool is_tf32(const Configuration& configuration) {
  return configuration.text("precision").starts_with("tf32");
}

/// Registers of producers and consumers after the block has shared them out; 0: as the compiler has it.
std::pair<int, int> registers(const Geometry& tiling) {
  return tiling.warpgroups() == 2   ? std::pair{112, 192}
         : tiling.warpgroups() == 3 ? std::pair{56, 152}
                                    : std::pair{0, 0};
}

std::string tiling_source(const Geometry& tiling, const Configuration& configuration, int cluster) {
  const auto [producer, consumer] = registers(tiling);
  const std::string precision = configuration.text("precision");
  return fmt::format(
      "#define KW_CHUNK_ELEMENTS {}\n#define KW_TERMS {}\n#define KW_CHANNELS_FIRST {}\n"
      "#define KW_PRODUCER_REGISTERS {}\n#define KW_CONSUMER_REGISTERS {}\n#define KW_CLUSTER {}\n"
      "#define KW_IS_FP16 {:d}\n#define KW_IS_BF16 {:d}\n#define KW_STAGED_WORDS {}\n#define KW_COPIED {}\n",
      tiling.chunk_elements, tiling.terms, tiling.channels_first, producer, consumer, cluster,
      precision.starts_with("fp16"), precision.starts_with("bf16"), producer > 100 ? 80 : 32, tiling.copied);
}

/// The input, the first argument, as the copy engine reads it: the rows that a tile takes of a row of taps, a
/// chunk of channels at a time.
TensorMap input_map(const Problem& problem, const Geometry& tiling) {
  TensorMap map;
  map.dtype = problem.dtype;
  for (const std::int64_t extent : {problem.c, problem.in[2], problem.in[1], problem.in[0], problem.n})
    map.extents.push_back(static_cast<std::uint64_t>(extent));
  for (const int extent : {tiling.chunk_elements, tiling.copied_width(), tiling.spanned_rows(), 1, 1})
    map.box.push_back(static_cast<std::uint32_t>(extent));
  map.steps = {1, 1, tiling.tile_h > 1 ? static_cast<std::uint32_t>(tiling.stride.h) : 1, 1, 1};
  return map;
}

/// Why the norm of an epilogue cannot be fused: the positions of a sample must fit in a cluster.
std::optional<std::string> norm_problem(const Problem& problem, const FusedEpilogue& epilogue) {
  constexpr std::int64_t kMostCluster = 8, kMostColumns = 256;
  const Extents out = problem.conv_extents();
  const std::int64_t halo = (problem.filter[2] - 1) * problem.dilation[2] + 3;
  std::int64_t least = out.d * out.h * out.w;
  for (const std::int64_t h : {1, 2, 4, 8, 16})
    for (const std::int64_t w :
         {out.w, std::int64_t{256}, std::int64_t{128}, std::int64_t{64}, std::int64_t{32}})
      if ((h - 1) * (w + halo) + w <= kMostColumns && h <= out.h && w < 2 * out.w)
        least = std::min(least, out.d * ((out.h + h - 1) / h) * ((out.w + w - 1) / w));
  if (least > kMostCluster)
    return fmt::format("a fused norm takes the positions of a sample in at most {} blocks", kMostCluster);
  if ((problem.k / problem.groups) % epilogue.norm_channels(problem) != 0)
    return "a group of the norm reaches over groups of the convolution";
  if (epilogue.norm_channels(problem) > 192) return "a fused norm takes at most 192 channels a group";
  return std::nullopt;
}

std::optional<std::string> shape_problem(const Problem& problem, const DeviceInfo& device) {
  constexpr std::int64_t kMost = std::int64_t{1} << 29;
  if (problem.stride[2] != 1)
    return fmt::format("implicit_gemm_sm90 computes stride 1 along w, not {}", problem.stride[2]);
  const Extents out = problem.conv_extents();
  for (const std::int64_t extent :
       {problem.n, problem.c, problem.k, problem.in[0], problem.in[1], problem.in[2], out.d, out.h, out.w,
        problem.pad[0], problem.pad[1], problem.pad[2], problem.stride[0], problem.stride[1]})
    if (extent > kMost) return fmt::format("an extent of {} is above {}", extent, kMost);
  const std::int64_t halo = (problem.filter[2] - 1) * problem.dilation[2];
  const std::int64_t least = 2 * (problem.filter[2] + 1) * 64 * 16 + 2 * 16 * (16 + halo) + 8192;
  if (least > device.shared_bytes_per_block)
    return fmt::format("a row of {} taps takes {} bytes of shared memory; a block has {}", problem.filter[2],
                       least, device.shared_bytes_per_block);
  return std::nullopt;
}

class ImplicitGemmSm90 final : public KernelFamily {
 public:
  std::string_view name() const override { return "implicit_gemm_sm90"; }
  Backend backend() const override { return Backend::cuda; }

  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override {
    if (device.compute_capability != 90)
      return fmt::format("implicit_gemm_sm90 uses instructions of compute capability 9.0 alone, not {}.{}",
                         device.compute_capability / 10, device.compute_capability % 10);
    std::string reason;
    const auto epilogue = plan_fused_epilogue(problem, reason);
    if (!epilogue) return reason;
    if (epilogue->reduction || epilogue->softmax)
      return "implicit_gemm_sm90 fuses element-wise steps and norms only";
    if (auto why = shape_problem(problem, device)) return why;
    return epilogue->norm ? norm_problem(problem, *epilogue) : std::nullopt;
  }

  std::string_view space_json() const override {
    static const auto& text = never_destroyed(std::string(device_source("cuda_implicit_gemm_sm90.json")));
    return text;
  }

  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo&) const override {
    std::string reason;
    const auto epilogue = plan_fused_epilogue(problem, reason);
    return {{"epilogue_norm_channels", Value(epilogue ? epilogue->norm_channels(problem) : 0)},
            {"dtype", Value(std::string(to_string(problem.dtype)))},
            {"layout", Value(std::string(to_string(problem.layout)))}};
  }

  std::string source_hash() const override {
    return text_digest(
        {kHostVersion, space_json()},
        {"mbarrier.cuh", "matrix_operands.cuh", "implicit_gemm_sm90_geometry.h",
         "implicit_gemm_sm90_staging.cuh", "implicit_gemm_sm90_output.cuh", "implicit_gemm_sm90.cuh"});
  }

  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;

  OutputTile tile(const Problem& problem, const Configuration& configuration) const override {
    const Geometry tiling = implicit_gemm_sm90_tiling(problem, configuration);
    return {tiling.channels_per_block, 1, tiling.tile_h, tiling.tile_w};
  }
};

KernelInstance ImplicitGemmSm90::instantiate(const Problem& problem, const Configuration& configuration,
                                             const DeviceInfo&) const {
  std::string reason;
  const FusedEpilogue epilogue = plan_fused_epilogue(problem, reason).value();
  const Geometry tiling = implicit_gemm_sm90_tiling(problem, configuration);
  const bool affine = epilogue.norm && problem.epilogue[*epilogue.norm].affine;
  const int cluster = epilogue.norm ? static_cast<int>(tiling.tile_groups()) : 1;
  const std::size_t vectors = (problem.bias ? 1 : 0) + (affine ? 2 : 0);
  KernelInstance instance;
  instance.source =
      source_prelude(problem, configuration) + tiling_source(tiling, configuration, cluster) +
      epilogue.source(problem) + device_source("mbarrier.cuh") + device_source("matrix_operands.cuh") +
      warpgroup_instruction(tiling.columns(), configuration.text("precision"), LeftOperand::shared) +
      device_source("implicit_gemm_sm90_geometry.h") + device_source("implicit_gemm_sm90_staging.cuh") +
      device_source("implicit_gemm_sm90_output.cuh") + device_source("implicit_gemm_sm90.cuh");
  instance.packed_bytes = static_cast<std::size_t>(tiling.packed_weight_bytes()) +
                          4 * vectors * static_cast<std::size_t>(tiling.padded_channels());
  KernelLaunch pack{"implicit_gemm_sm90_pack", {1, 1, 1}, {256, 1, 1}, 0, {{Slot::parameter, 0}}};
  pack.grid[0] = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(tiling.packed_weight_bytes() / (4096 * tiling.terms), 1, 4096));
  for (std::size_t i = 1; i <= vectors; ++i) pack.arguments.push_back({Slot::parameter, i});
  pack.arguments.push_back({Slot::packed, 0});
  instance.prepare = {pack};
  instance.run = {
      KernelLaunch{"implicit_gemm_sm90",
                   {static_cast<std::uint32_t>(tiling.blocks()), 1, 1},
                   {static_cast<std::uint32_t>(tiling.threads()), 1, 1},
                   static_cast<std::uint32_t>(tiling.shared_bytes(epilogue.norm.has_value())),
                   {{Slot::input}, {Slot::packed}, {Slot::output}, residual_argument(problem, epilogue)}}};
  if (tiling.copied) instance.run.front().tensor_map = input_map(problem, tiling);
  return instance;
}

}  // namespace

Geometry implicit_gemm_sm90_tiling(const Problem& problem, const Configuration& configuration) {
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
          knob("tile_h"),
          knob("tile_w"),
          knob("channels_per_block"),
          knob("column_groups"),
          knob("input_channels_per_step"),
          knob("stages"),
          knob("tiles_per_block"),
          is_tf32(configuration) ? 4 : 8,
          splits(configuration) ? 2 : 1,
          configuration.text("grid_order") == "channels_first",
          static_cast<int>(size_of(problem.dtype)),
          problem.layout == Layout::nhwc,
          configuration.text("input_copies") == "engine"};
}

const KernelFamily& cuda_implicit_gemm_sm90_family() {
  static const auto& family = never_destroyed(ImplicitGemmSm90());
  return family;
}

}  // namespace knobwise
