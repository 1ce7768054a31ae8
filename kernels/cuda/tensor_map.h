// Tensor maps: what the copy engine of sm_90 and up must know of a tensor, as an argument of a kernel.
#pragma once

#include <cstddef>

#include "kernels/cuda/driver.h"
#include "kernels/device.h"

namespace knobwise {

/// The argument that a launch's tensor map becomes. Immutable; thread-safe.
class TensorMapArgument {
 public:
  /// Requires a launch that has one, and a context that is current. Throws TrialError (unsupported) if the driver makes no tensor maps or
  /// not this one.
  explicit TensorMapArgument(const KernelLaunch& launch);

  std::size_t position() const { return position_; }  ///< Among the launch's arguments.
  /// The value for a run on these buffers, whose address must be a multiple of 16.
  CUtensorMap value(const Buffers& buffers) const;

 private:
  BufferRef source_;
  std::size_t position_;
  CUtensorMap map_;
};

}  // namespace knobwise
