// The backend's own kernels: filling, digests, comparison.
#pragma once

#include <cstdint>

#include "kernels/cuda/cuda_module.h"
#include "kernels/cuda/error_sums.h"
#include "kernels/device.h"
#include "kernels/operands.h"

namespace knobwise {

/// Kernels that serve any problem, compiled with NVRTC on construction. Not thread-safe. Everything runs on
/// the default stream; what returns a value waits for it.
class CudaTools {
 public:
  /// Throws UserError if NVRTC is missing.
  explicit CudaTools(Device& device, const std::shared_ptr<const CudaContext>& context);

  void fill(void* data, DType dtype, std::int64_t elements, const OperandFill& fill);

  /// A 64-bit digest of a tensor's content.
  std::uint64_t digest(const void* data, DType dtype, std::int64_t elements);

  /// Compares `elements` outputs with their float64 references and adds them to `sums`.
  void compare(const void* out, DType dtype, const double* reference, std::int64_t elements, ErrorSums& sums);

 private:
  CudaModule module_;
  CudaKernel fill_, digest_, compare_;
  Device& device_;
  std::unique_ptr<DeviceBuffer> scratch_;  ///< Results of digest() and compare().
};

}  // namespace knobwise
