// The processor as a device.
#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "kernels/cpu/cache_flush.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_executable.h"
#include "kernels/cpu/machine.h"
#include "kernels/operands.h"
#include "kernels/reference.h"
#include "kernels/timing.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

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
    // What is not touched still counts as free, and would for the next buffer.
    constexpr std::size_t kPage = 4096;
    for (std::size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(buffer->data())[at] = 0;
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
  std::optional<std::string> memory_problem(const void* data, std::size_t bytes,
                                            Access access) const override {
    const bool written = access == Access::write;
    if (written ? writable(data, bytes) : readable(data, bytes)) return std::nullopt;
    return fmt::format(
        "{} bytes needed, not all of which this process can {}; a plan for the CPU takes host memory", bytes,
        written ? "write" : "read");
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
    if (!flush_) flush_ = std::make_unique<CacheFlush>(info_, CacheFlush::best_method());
    return sample_runs([&] { return sample(executable, buffers); }, options, Backend::cpu);
  }

  DeviceState state() override { return {current_clock_khz(), processor_temperature_c()}; }

 private:
  double sample(Executable& executable, const Buffers& buffers) {
    using Clock = std::chrono::steady_clock;
    flush_->run();
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
