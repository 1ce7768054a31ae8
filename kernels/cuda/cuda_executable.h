// A kernel instance loaded on a CUDA device.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/cuda_module.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/device.h"
#include "kernels/launch_arguments.h"

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
  Resources resources() const override;

 private:
  struct Step {
    CudaKernel kernel;
    LaunchArguments::Range arguments;
    std::unique_ptr<const TensorMapArgument> tensor_map;  // null: it takes none
  };
  struct Constant {
    CUdeviceptr address;
    BufferRef source;
    std::size_t bytes;
  };
  std::vector<Step> make_steps(const std::vector<KernelLaunch>& launches);
  void queue(const std::vector<Step>& steps, const Buffers& buffers, Stream stream) const;

  CudaModule module_;
  LaunchArguments arguments_;
  std::vector<Step> prepare_, run_;
  std::vector<Constant> constants_;
  std::size_t packed_bytes_, workspace_bytes_;
  std::int64_t binary_bytes_;
  int spill_bytes_;
};

}  // namespace knobwise
