// A kernel instance loaded on a CUDA device.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_module.h"
#include "kernels/device.h"

namespace knobwise {

/// Queues the launches of a KernelInstance. Holds its module and context, so it may outlive the Device that
/// made it.
class CudaExecutable final : public Executable {
 public:
  /// Throws TrialError before anything is launched: see CudaModule::kernel().
  CudaExecutable(std::shared_ptr<const CudaContext> context, const KernelInstance& instance,
                 const CompiledCode& code);

  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  void prepare(const Buffers& buffers, Stream stream) override;
  void run(const Buffers& buffers, Stream stream) override;
  Resources resources() const override { return resources_; }

 private:
  struct Step {
    CudaKernel kernel;
    std::vector<BufferRef> arguments;
    std::vector<std::string> scalars;
  };
  struct Constant {
    CUdeviceptr address;
    ConstantArray array;
  };
  Step make_step(const KernelLaunch& launch) const;
  void queue(const std::vector<Step>& steps, const Buffers& buffers, Stream stream) const;

  CudaModule module_;
  std::vector<Step> prepare_, run_;
  std::vector<Constant> constants_;
  std::size_t packed_bytes_, workspace_bytes_;
  Resources resources_;
};

}  // namespace knobwise
