// What shows a processor's highest rates: multiply-adds in registers, and a copy past all caches.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/ceilings.h"
#include "kernels/cpu/cpu_backend.h"

namespace knobwise {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;
// Some virtual machines report the cache of the whole host.
constexpr std::int64_t kLeastCopy = std::int64_t{256} << 20, kMostCopy = std::int64_t{1} << 30;

// One task copies one chunk. Non-temporal stores spare the read of what is overwritten.
constexpr const char* kCopySource = R"(
#ifdef __x86_64__
#include <immintrin.h>
extern "C" void copy(void* const* arguments, long long task) {
  const float* from = (const float*)arguments[0] + task * (CHUNK / 4);
  float* to = (float*)arguments[1] + task * (CHUNK / 4);
  for (long long i = 0; i < CHUNK / 4; i += 16)
    for (long long j = i; j < i + 16; j += 4) _mm_stream_ps(to + j, _mm_loadu_ps(from + j));
  _mm_sfence();
}
#else
extern "C" void copy(void* const* arguments, long long task) {
  __builtin_memcpy((char*)arguments[1] + task * CHUNK, (const char*)arguments[0] + task * CHUNK, CHUNK);
}
#endif
)";

// Independent chains of multiply-adds on whole vectors, more than the latency of one takes.
constexpr const char* kArithmeticSource = R"(
typedef float Vector __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
extern "C" void multiply_add(void* const* arguments, long long task) {
  const Vector factor = ((const Vector*)arguments[0])[0], addend = ((const Vector*)arguments[0])[1];
  Vector chains[CHAINS];
  #pragma GCC unroll 32
  for (int j = 0; j < CHAINS; ++j) chains[j] = factor * (float)j;
  for (long long i = 0; i < ITERATIONS; ++i) {
    #pragma GCC unroll 32
    for (int j = 0; j < CHAINS; ++j) chains[j] = chains[j] * factor + addend;
  }
  Vector sum = chains[0];
  #pragma GCC unroll 32
  for (int j = 1; j < CHAINS; ++j) sum += chains[j];
  ((Vector*)arguments[1])[task] = sum;
}
)";

KernelLaunch launch(const char* function, std::int64_t tasks, const DeviceInfo& device) {
  return {function,
          {static_cast<std::uint32_t>(tasks), 1, 1},
          {static_cast<std::uint32_t>(device.multiprocessors), 1, 1},
          0,
          {{Slot::input, 0}, {Slot::output, 0}}};
}

CeilingProbe copy_probe(const DeviceInfo& device) {
  const std::int64_t wanted = std::clamp(4 * device.l3_bytes, kLeastCopy, kMostCopy);
  const std::int64_t bytes =
      std::max<std::int64_t>(1, std::min(wanted, device.free_memory_bytes / 4) / kChunk) * kChunk;
  CeilingProbe probe;
  probe.resource = "memory";
  probe.work = 2.0 * static_cast<double>(bytes);
  probe.input_bytes = probe.output_bytes = static_cast<std::size_t>(bytes);
  probe.instance.source = fmt::format("#define CHUNK {}\n{}", kChunk, kCopySource);
  probe.instance.run.push_back(launch("copy", bytes / kChunk, device));
  return probe;
}

CeilingProbe arithmetic_probe(const DeviceInfo& device) {
  constexpr double kFlopOfTask = 1e9;
  const int chains = device.vector_registers >= 32 ? 24 : 12;  // the rest holds factor and addend
  const int lanes = device.vector_bytes / static_cast<int>(sizeof(float));
  const auto iterations = static_cast<std::int64_t>(kFlopOfTask / (2.0 * chains * lanes));
  const int tasks = device.multiprocessors;
  CeilingProbe probe;
  probe.resource = "fp32";
  probe.work = 2.0 * chains * lanes * static_cast<double>(iterations) * tasks;
  probe.input_bytes = static_cast<std::size_t>(2 * device.vector_bytes);
  probe.output_bytes = static_cast<std::size_t>(device.vector_bytes) * static_cast<std::size_t>(tasks);
  probe.instance.source =
      fmt::format("#define VECTOR_BYTES {}\n#define CHAINS {}\n#define ITERATIONS {}LL\n{}",
                  device.vector_bytes, chains, iterations, kArithmeticSource);
  probe.instance.run.push_back(launch("multiply_add", tasks, device));
  return probe;
}

}  // namespace

std::vector<CeilingProbe> cpu_ceiling_probes(const DeviceInfo& device) {
  return {copy_probe(device), arithmetic_probe(device)};
}

}  // namespace knobwise
