// The processor as a device.
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_executable.h"
#include "kernels/cpu/machine.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/operands.h"
#include "kernels/reference.h"
#include "kernels/timing.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Aligned host memory; pages appear as they are touched.
class HostBuffer : public DeviceBuffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) {
    const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    data_ = std::aligned_alloc(alignment, rounded);
    if (data_ != nullptr && alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
  }
  ~HostBuffer() override { std::free(data_); }
  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// Reads more memory than the last-level cache holds: that leaves nothing of a kernel's in it, and no lines
/// to write back while the next run is timed. 256 MB at most: some virtual machines report the cache of the
/// whole host.
class CacheFlush {
 public:
  explicit CacheFlush(std::int64_t l3_bytes)
      : buffer_(static_cast<std::size_t>(
            std::min<std::int64_t>(std::max<std::int64_t>(2 * l3_bytes, 16 << 20), kMostBytes))) {
    std::memset(buffer_.data(), 1, buffer_.bytes());  // untouched pages would all be the same memory
  }

  void run(int threads) {
    void* arguments[] = {buffer_.data(), &sum_};
    ThreadPool::instance().run(
        [](void* const* a, long long task) {
          const auto* words =
              reinterpret_cast<const std::uint64_t*>(static_cast<char*>(a[0]) + task * kChunk);
          std::uint64_t sum = 0;
          for (std::size_t i = 0; i < kChunk / sizeof *words; ++i) sum += words[i];
          *static_cast<std::atomic<std::uint64_t>*>(a[1]) += sum;
        },
        arguments, static_cast<long long>(buffer_.bytes() / kChunk), threads);
  }

 private:
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  static constexpr long long kChunk = 1 << 20;
  HostBuffer buffer_;
  std::atomic<std::uint64_t> sum_{0};  // keeps the compiler from leaving the reads out
};

class CpuDevice : public Device {
 public:
  CpuDevice() : info_(cpu_device_info()) {}

  const DeviceInfo& info() const override { return info_; }

  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, std::string_view purpose) override {
    const std::int64_t free_bytes = available_memory_bytes();
    auto buffer =
        bytes <= static_cast<std::size_t>(free_bytes) ? std::make_unique<HostBuffer>(bytes) : nullptr;
    if (buffer == nullptr || buffer->data() == nullptr)
      throw UserError(
          fmt::format("{} needs {:.1f} MB of memory and {:.1f} MB are free: choose a smaller problem",
                      purpose, static_cast<double>(bytes) / 1e6, static_cast<double>(free_bytes) / 1e6));
    return buffer;
  }

  void upload(void* device, const void* host, std::size_t bytes) override {
    std::memcpy(device, host, bytes);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    std::memcpy(host, device, bytes);
  }
  void fill_bytes(void* device, unsigned char value, std::size_t bytes) override {
    std::memset(device, value, bytes);
  }
  std::optional<std::string> memory_problem(const void* data, std::size_t bytes) const override {
    if (readable(data, bytes)) return std::nullopt;
    return fmt::format(
        "{} bytes needed, not all of which this process can read; a plan for the CPU takes host memory",
        bytes);
  }
  void synchronize() override {}  // every call finishes its work before it returns

  void fill_operand(void* device, DType dtype, std::int64_t elements, const OperandFill& fill) override {
    fill_host(device, dtype, elements, fill);
  }

  ErrorMetrics verify(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                      std::uint64_t seed) override {
    return verify_host(problem, buffers, tile, seed);
  }

  std::unique_ptr<Executable> load(const KernelInstance& instance, const CompiledCode& code) override {
    return load_cpu_executable(instance, code);
  }

  Timing time(Executable& executable, const Buffers& buffers, const TimingOptions& options) override {
    if (!flush_) flush_ = std::make_unique<CacheFlush>(info_.l3_bytes);
    return sample_runs([&] { return sample(executable, buffers); }, options, Backend::cpu);
  }

  DeviceState state() override { return {current_clock_khz(), processor_temperature_c()}; }

 private:
  double sample(Executable& executable, const Buffers& buffers) {
    using Clock = std::chrono::steady_clock;
    flush_->run(info_.multiprocessors);
    const auto begin = Clock::now();
    executable.run(buffers, nullptr);
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }

  DeviceInfo info_;
  std::unique_ptr<CacheFlush> flush_;
};

}  // namespace

std::unique_ptr<Device> open_cpu_device() {
  return std::make_unique<CpuDevice>();
}

}  // namespace knobwise
