// Machine code on a device.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/cuda/cuda_context.h"
#include "kernels/device.h"

namespace knobwise {

using LaunchExtents = std::array<std::uint32_t, 3>;

/// One function of a CudaModule, ready to launch with fixed extents; valid as long as the module. A value
/// type; thread-safe.
struct CudaKernel {
  CUfunction function = nullptr;
  LaunchExtents grid{1, 1, 1};
  LaunchExtents block{1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
};

/// A loaded cubin. Immutable; thread-safe.
class CudaModule {
 public:
  /// Throws TrialError (load_failed). `image` is only read during the call.
  CudaModule(std::shared_ptr<const CudaContext> context, const std::string& image);
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  /// Prepares a function for a launch: checks the extents against the device's limits and opts in to shared
  /// memory above 48 KB. Throws TrialError (load_failed, out_of_resources, launch_failed) before anything is
  /// launched.
  CudaKernel kernel(const std::string& function, LaunchExtents grid, LaunchExtents block,
                    std::uint32_t dynamic_shared_bytes = 0) const;

  /// The address of a `__constant__` array; nothing if the code has none and need not. Throws TrialError
  /// (load_failed) if it is missing or smaller than what it must hold.
  std::optional<CUdeviceptr> constant(const ConstantArray& array) const;

  /// What the driver says of a prepared function.
  Resources resources(const CudaKernel& kernel) const;

  /// Queues one launch; `arguments` are pointers to the values. The context must be current. Throws
  /// TrialError.
  void launch(const CudaKernel& kernel, void** arguments, Stream stream) const;

  const CudaContext& context() const { return *context_; }

 private:
  int attribute(CUfunction function, CUfunction_attribute which) const;

  std::shared_ptr<const CudaContext> context_;
  CUmodule module_ = nullptr;
};

}  // namespace knobwise
