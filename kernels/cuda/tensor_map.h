// Tensor maps: what the copy engine of sm_90 and up must know of a tensor, as an argument of a kernel.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/cuda/cuda_context.h"
#include "kernels/device.h"

namespace knobwise {

/// The argument that a TensorMap becomes. Immutable; thread-safe.
class TensorMapArgument {
 public:
  /// Throws TrialError (unsupported) if the driver makes no tensor maps or not this one.
  TensorMapArgument(const CudaContext& context, const TensorMap& map);

  std::size_t argument() const { return argument_; }  ///< TensorMap::argument.
  /// The value for the tensor at this address, a multiple of 16.
  CUtensorMap at(void* address) const;

 private:
  std::size_t argument_;
  std::array<char, sizeof(CUtensorMap)> map_{};  // without its alignment: applications keep many
};

}  // namespace knobwise
