// What remains to do around a convolution that does not do all of the problem itself: layout changes, bias
// and epilogue as passes of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/problem.h"

namespace knobwise {

/// Where a pass reads or writes.
enum class PassTensor { source, scratch0, scratch1, output };

/// One kernel: `extern "C" __global__ void function(const void* in, void* out, const void*...)` with all of
/// Problem::parameters() in their order.
struct Pass {
  std::string function;
  std::uint32_t blocks = 1, threads = 256;
  PassTensor in = PassTensor::source, out = PassTensor::output;
};

/// What the passes begin with.
struct PassSource {
  bool nhwc = false;       ///< Its order of elements.
  bool bias_done = false;  ///< The bias is in it.
  /// Steps of the epilogue before this one are done; the bias too, unless this is 0.
  std::size_t first_step = 0;
  DType dtype = DType::f32;
  int parts = 1;  ///< Tensors one after the other whose sum is the convolution.
};

/// The passes, and the source of all kernels. Besides them the source has, where the layouts differ,
/// `kw_convert_input(in, out)` (256 threads), and the device function `pack_weights(weights, packed)`.
struct PassPlan {
  std::string source;
  std::vector<Pass> passes;
  std::size_t scratch_bytes[2] = {0, 0};  ///< Of the float intermediates.
  /// The source may be the output itself; the passes (if any) work on it in place.
  bool in_place = false;
};

/// Parameters that a pass takes at most.
inline constexpr std::size_t kMostPassParameters = 62;

/// Element-wise steps are fused into the pass that precedes or follows; each reduction, softmax and norm is
/// one pass. Names begin with `prefix`: two plans can stand in one translation unit.
PassPlan plan_passes(const Problem& problem, const PassSource& source, std::string_view prefix = "kw");

/// Blocks of 256 threads for a loop over `elements`.
std::uint32_t pass_blocks(std::int64_t elements);

}  // namespace knobwise
