// Describes this machine as a device.
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/machine.h"
#include "kernels/cpu/thread_pool.h"

namespace knobwise {
namespace {

std::unordered_set<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  std::unordered_set<std::string> result;
  for (std::string word; words >> word;) result.insert(word);
  return result;
}

/// The levels of the x86-64 ABI supplement, by what tells each from the one below.
void describe_x86(DeviceInfo& info) {
  const auto flags = words_of(cpuinfo("flags"));
  const auto all = [&flags](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(),
                       [&flags](const char* name) { return flags.contains(name); });
  };
  info.architecture = "x86-64";
  info.vector_bytes = 16;
  info.vector_registers = 16;
  if (all({"ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"})) info.architecture = "x86-64-v2";
  if (all({"avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"})) {
    info.architecture = "x86-64-v3";
    info.vector_bytes = 32;
  }
  if (all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) {
    info.architecture = "x86-64-v4";
    info.vector_bytes = 64;
    info.vector_registers = 32;
    info.bf16 = flags.contains("avx512_bf16");
  }
}

void describe_arm(DeviceInfo& info) {
  info.architecture = "aarch64";
  info.vector_bytes = 16;
  info.vector_registers = 32;
}

}  // namespace

DeviceInfo cpu_device_info() {
  DeviceInfo info;
  info.backend = Backend::cpu;
  info.vendor = cpuinfo("vendor_id");
  info.name = cpuinfo("model name");
  utsname system{};
  uname(&system);
  info.driver_version = system.release;
  if (std::string_view(system.machine) == "aarch64")
    describe_arm(info);
  else
    describe_x86(info);
  if (info.vendor.empty()) info.vendor = cpuinfo("CPU implementer");
  if (info.name.empty()) info.name = fmt::format("{} processor", system.machine);
  info.multiprocessors = std::min(static_cast<int>(allowed_cpus().size()), quota_cpus());
  info.memory_bytes = total_memory_bytes();
  info.free_memory_bytes = available_memory_bytes();
  info.clock_khz = max_clock_khz();
  info.l1_bytes = cache_bytes(1);
  info.l2_bytes = cache_bytes(2);
  info.l3_bytes = cache_bytes(3);
  info.max_threads_per_block = info.multiprocessors;
  return info;
}

}  // namespace knobwise
