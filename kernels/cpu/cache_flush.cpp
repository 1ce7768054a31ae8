#include "kernels/cpu/cache_flush.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/thread_pool.h"

namespace knobwise {
namespace {

constexpr std::size_t kLine = 64, kChunk = std::size_t{1} << 20;

struct Region {
  const char* begin;
  std::size_t bytes;
};

#ifdef __x86_64__
bool has_clflushopt() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_CLFLUSHOPT);
}

__attribute__((target("clflushopt"))) void evict(Region region) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(region.begin) % kLine;
  for (std::size_t i = 0; i < before + region.bytes; i += kLine)
    _mm_clflushopt(const_cast<char*>(region.begin - before + i));
  _mm_mfence();
}
#else
bool has_clflushopt() {
  return false;
}
void evict(Region) {}
#endif

void read_lines(const char* begin, std::size_t bytes) {
  char sum = 0;
  for (std::size_t i = 0; i < bytes; i += kLine) sum = static_cast<char>(sum + begin[i]);
  [[maybe_unused]] volatile char result = sum;  // keeps the compiler from leaving the reads out
}

// Twice the caches that a core has for itself. Twice the last one otherwise, but not more than 256 MB: some
// virtual machines report the cache of the whole host.
std::size_t bytes_to_read(const DeviceInfo& cpu, CacheFlush::Method method) {
  constexpr std::int64_t kMegabyte = 1 << 20;
  return static_cast<std::size_t>(method == CacheFlush::Method::lines
                                      ? std::clamp(2 * cpu.l2_bytes, 2 * kMegabyte, 16 * kMegabyte)
                                      : std::clamp(2 * cpu.l3_bytes, 16 * kMegabyte, 256 * kMegabyte));
}

}  // namespace

CacheFlush::Method CacheFlush::best_method() {
  return has_clflushopt() ? Method::lines : Method::stream;
}

CacheFlush::CacheFlush(const DeviceInfo& cpu, Method method)
    : method_(method), cores_(cpu.multiprocessors), read_(bytes_to_read(cpu, method)) {
  std::memset(read_.data(), 1, read_.bytes());  // untouched pages would all be the same memory
}

void CacheFlush::run() {
  if (method_ == Method::stream) return read_all();
  evict_lines();
  read_on_every_core();
}

void CacheFlush::evict_lines() {
  std::vector<Region> regions;
  HostBuffer::for_each([&](const HostBuffer& buffer) {
    if (&buffer == &read_) return;
    const char* begin = static_cast<const char*>(buffer.data());
    for (std::size_t at = 0; at < buffer.bytes(); at += kChunk)
      regions.push_back({begin + at, std::min(kChunk, buffer.bytes() - at)});
  });
  void* arguments[] = {regions.data()};
  ThreadPool::instance().run([](void* const* a, long long task) { evict(static_cast<Region*>(a[0])[task]); },
                             arguments, static_cast<long long>(regions.size()), cores_);
}

// Each waits for all others: one task a core.
void CacheFlush::read_on_every_core() {
  arrived_ = 0;
  void* arguments[] = {this};
  ThreadPool::instance().run(
      [](void* const* a, long long) {
        CacheFlush& flush = *static_cast<CacheFlush*>(a[0]);
        for (++flush.arrived_; flush.arrived_ < flush.cores_;) sched_yield();
        read_lines(static_cast<const char*>(flush.read_.data()), flush.read_.bytes());
      },
      arguments, cores_, cores_);
}

void CacheFlush::read_all() {
  void* arguments[] = {read_.data()};
  ThreadPool::instance().run(
      [](void* const* a, long long task) {
        read_lines(static_cast<const char*>(a[0]) + static_cast<std::size_t>(task) * kChunk, kChunk);
      },
      arguments, static_cast<long long>(read_.bytes() / kChunk), cores_);
}

}  // namespace knobwise
