// The CUDA side of the Device contract.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/cuda/cuda_context.h"
#include "kernels/device.h"

namespace knobwise {

class CudaTools;
class CudaVerifier;
class CudaTimer;

/// One CUDA device. Calls on it must not overlap, except those on its Executables; buffers and executables
/// may outlive it. After a kernel has faulted, every call throws TrialError (crashed): see CudaContext.
///
/// Filling and verifying compile their kernels with NVRTC on first use; the rest works without NVRTC.
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;

  const DeviceInfo& info() const override { return context_->info(); }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, std::string_view purpose) override;
  void upload(void* device, const void* host, std::size_t bytes) override;
  void download(void* host, const void* device, std::size_t bytes) override;
  void fill_bytes(void* device, unsigned char value, std::size_t bytes) override;
  std::optional<std::string> memory_problem(const void* data, std::size_t bytes, Access) const override;
  std::optional<std::string> stream_problem(Stream stream) const override;
  void synchronize() override;
  void fill_operand(void* device, DType dtype, std::int64_t elements, const OperandFill& fill) override;
  /// Compares all elements. The reference is kept for further calls with inputs of the same content.
  void forget_references() override;
  ErrorMetrics verify(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                      std::uint64_t seed) override;
  std::unique_ptr<Executable> load(const KernelInstance& instance, const CompiledCode& code) override;
  Timing time(Executable& executable, const Buffers& buffers, const TimingOptions& options) override;
  DeviceState state() override;

  /// For the backend's own built-in families.
  const std::shared_ptr<const CudaContext>& context() const { return context_; }

 private:
  CudaTools& tools();
  CudaTimer& timer();

  std::shared_ptr<const CudaContext> context_;
  std::unique_ptr<CudaTools> tools_;
  std::unique_ptr<CudaVerifier> verifier_;
  std::unique_ptr<CudaTimer> timer_;
};

}  // namespace knobwise
