#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/cuda/cuda_backend.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

struct Target {
  int compute_capability;
  const char* name;
  int multiprocessors;
  int memory_gib;
  int l2_mib;
  int shared_kib_per_multiprocessor;
  int threads_per_multiprocessor;
};

constexpr Target kTargets[] = {
    {80, "NVIDIA A100-SXM4-80GB", 108, 80, 40, 164, 2048},
    {86, "NVIDIA A10", 72, 24, 6, 100, 1536},
    {89, "NVIDIA L4", 58, 24, 48, 100, 1536},
    {90, "NVIDIA H200", 132, 141, 60, 228, 2048},
    {100, "NVIDIA B200", 148, 180, 126, 228, 2048},
    {120, "NVIDIA GeForce RTX 5090", 170, 32, 96, 100, 1536},
};

}  // namespace

DeviceInfo cuda_target_info(int compute_capability) {
  std::vector<int> known;
  for (const Target& target : kTargets) {
    known.push_back(target.compute_capability);
    if (target.compute_capability != compute_capability) continue;
    DeviceInfo info;
    info.backend = Backend::cuda;
    info.vendor = "NVIDIA";
    info.name = target.name;
    info.architecture = fmt::format("sm_{}", compute_capability);
    info.compute_capability = compute_capability;
    info.multiprocessors = target.multiprocessors;
    info.memory_bytes = std::int64_t{target.memory_gib} << 30;
    info.l2_bytes = std::int64_t{target.l2_mib} << 20;
    info.shared_bytes_per_multiprocessor = target.shared_kib_per_multiprocessor * 1024;
    info.shared_bytes_per_block = info.shared_bytes_per_multiprocessor - 1024;
    info.registers_per_multiprocessor = 65536;
    info.max_threads_per_block = 1024;
    info.max_threads_per_multiprocessor = target.threads_per_multiprocessor;
    info.vector_bytes = 16;
    info.bf16 = true;
    return info;
  }
  throw UserError(fmt::format("compute capability {} is not one of the described targets: {}",
                              compute_capability, fmt::join(known, ", ")));
}

}  // namespace knobwise
