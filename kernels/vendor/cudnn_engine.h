// A convolution by an engine of cuDNN's graph interface.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/vendor/cudnn_library.h"

namespace knobwise {

/// A convolution as the graph interface wants it: extents without strides, spatial ones last, at least two of
/// them.
struct CudnnConvolution {
  int dtype = cudnn::kFloat;          ///< Of all tensors; sums are fp32.
  bool nhwc = false;                  ///< The channel is the fastest dimension of all tensors.
  std::vector<std::int64_t> x, w, y;  ///< n, c, spatial; k, c of a group, spatial; n, k, spatial.
  std::vector<std::int64_t> pad, stride, dilation;
};

/// Which engines a precision mode takes, by what cuDNN notes of them.
enum class CudnnArithmetic {
  native,     ///< That of 16-bit tensors, with or without tensor cores.
  fp32,       ///< Without tensor cores.
  tf32,       ///< With them.
  converted,  ///< fp32 tensors rounded to 16 bits on the way.
};

/// One engine configuration, ready to run. None sums in less than fp32, or differs from run to run. Not
/// thread-safe, as its handle is not.
class CudnnEngine {
 public:
  /// The `rank`-th, from 0, of the suitable configurations in the order in which cuDNN's heuristics rank them
  /// (mode A, then fallbacks with other engines). Throws TrialError: "unsupported" if there are not so many
  /// or cuDNN cannot make a plan of it.
  CudnnEngine(cudnn::Handle handle, const CudnnConvolution& convolution, CudnnArithmetic arithmetic,
              int rank);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Queues y = x * w on the handle's stream. Pointers are aligned to 16 bytes. Allocates only where they are
  /// other than the last time.
  void run(const void* x, const void* w, void* y, void* workspace);

 private:
  using Descriptor = std::shared_ptr<void>;

  cudnn::Handle handle_;
  std::vector<Descriptor> parts_;  // that the plan refers to
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
  std::array<const void*, 4> packed_{};  // x, w, y and the workspace that pack_ names
  Descriptor pack_;
};

}  // namespace knobwise
