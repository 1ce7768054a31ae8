// What shows a GPU's highest rates: a copy past the L2, multiply-adds and tensor-core products in registers.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/ceilings.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_source.h"

namespace knobwise {
namespace {

// Runs of some milliseconds on the fastest GPU there is, of tenths of a second on the slowest.
constexpr std::int64_t kArithmeticIterations = 1 << 15;
constexpr std::int64_t kMostCopy = std::int64_t{2} << 30;
constexpr int kMmaChains = 8, kFmaChains = 16, kWarp = 32;
constexpr int kWgmmaSteps = 4, kWgmmaAccumulators = 128;

struct TensorType {
  const char* resource;
  const char* mma;  // the type's name in PTX
  DType fill;
  int depth;  // of one product along the reduction
};
// TF32 operands are floats of which the low bits do not count.
constexpr TensorType kTensorTypes[] = {
    {"tf32", "tf32", DType::f32, 8}, {"fp16", "f16", DType::f16, 16}, {"bf16", "bf16", DType::bf16, 16}};

CeilingProbe probe(const char* resource, const std::string& defines, std::int64_t iterations,
                   const char* function, std::uint32_t blocks, std::uint32_t threads) {
  CeilingProbe made;
  made.resource = resource;
  made.instance.source =
      fmt::format("{}#define KW_ITERATIONS {}\n{}", defines, iterations, device_source("ceilings.cuh"));
  made.instance.run = {
      KernelLaunch{function, {blocks, 1, 1}, {threads, 1, 1}, 0, {{Slot::input, 0}, {Slot::output, 0}}}};
  made.input_bytes = 64 << 10;
  made.output_bytes = std::size_t{blocks} * threads * sizeof(float);
  return made;
}

CeilingProbe copy_probe(const DeviceInfo& device) {
  constexpr std::uint32_t kThreads = 512;
  const auto blocks = static_cast<std::uint32_t>(4 * device.multiprocessors);
  const std::int64_t round = std::int64_t{blocks} * kThreads * 4 * 16;
  const std::int64_t memory = device.free_memory_bytes > 0 ? device.free_memory_bytes : device.memory_bytes;
  const std::int64_t wanted = std::min(kMostCopy, memory / 4);
  const std::int64_t rounds = std::max<std::int64_t>(1, wanted / round);
  CeilingProbe made = probe("memory", "", rounds, "kw_copy", blocks, kThreads);
  made.input_bytes = made.output_bytes = static_cast<std::size_t>(rounds * round);
  made.work = 2.0 * static_cast<double>(rounds * round);
  return made;
}

CeilingProbe fma_probe(const DeviceInfo& device) {
  const auto blocks = static_cast<std::uint32_t>(8 * device.multiprocessors);
  CeilingProbe made = probe("fp32", "", kArithmeticIterations, "kw_multiply_add", blocks, 256);
  made.work = 2.0 * kFmaChains * 256 * blocks * static_cast<double>(kArithmeticIterations);
  return made;
}

CeilingProbe mma_probe(const DeviceInfo& device, const TensorType& type) {
  const auto blocks = static_cast<std::uint32_t>(2 * device.multiprocessors);
  CeilingProbe made = probe(type.resource, fmt::format("#define KW_MMA_TYPE {}\n", type.mma),
                            kArithmeticIterations, "kw_mma", blocks, 256);
  const double product = 2.0 * 16 * 8 * type.depth;
  made.work = product * kMmaChains * (256.0 / kWarp) * blocks * static_cast<double>(kArithmeticIterations);
  made.dtype = type.fill;
  return made;
}

// The instruction with its 128 accumulators, and their list as asm operands.
std::string wgmma_defines(const TensorType& type) {
  std::string registers, operands;
  for (int i = 0; i < kWgmmaAccumulators; ++i) {
    registers += fmt::format("{}%{}", i == 0 ? "" : ",", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i == 0 ? "" : ",", i);
  }
  const char* transposition = type.depth == 16 ? ", 0, 0" : "";
  return fmt::format(
      "#define KW_WGMMA \"{{.reg .pred p; setp.eq.u32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n256k{0}.f32.{1}.{1} "
      "{{{2}}}, %{3}, %{4}, p, 1, 1{5};}}\"\n#define KW_WGMMA_OPERANDS {6}\n",
      type.depth, type.mma, registers, kWgmmaAccumulators, kWgmmaAccumulators + 1, transposition, operands);
}

CeilingProbe wgmma_probe(const DeviceInfo& device, const TensorType& type) {
  const auto blocks = static_cast<std::uint32_t>(device.multiprocessors);
  constexpr std::int64_t kIterations = kArithmeticIterations / 8;
  CeilingProbe made = probe(type.resource, wgmma_defines(type), kIterations, "kw_wgmma", blocks, 256);
  const double product = 2.0 * 64 * 256 * type.depth;
  made.work = product * kWgmmaSteps * 2 * blocks * static_cast<double>(kIterations);
  made.dtype = type.fill;
  return made;
}

}  // namespace

std::vector<CeilingProbe> cuda_ceiling_probes(const DeviceInfo& device) {
  std::vector<CeilingProbe> probes = {copy_probe(device), fma_probe(device)};
  for (const TensorType& type : kTensorTypes) {
    probes.push_back(mma_probe(device, type));
    // Older products reach some two thirds of what Hopper's own do.
    if (device.compute_capability == 90) probes.push_back(wgmma_probe(device, type));
  }
  return probes;
}

}  // namespace knobwise
