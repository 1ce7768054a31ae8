// What remains to do around a library convolution on the GPU: layout changes, bias and epilogue as passes of
// our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problem.h"

namespace knobwise {

/// Where a pass reads or writes.
enum class PassTensor { convolution, scratch0, scratch1, output };

/// One kernel: `extern "C" __global__ void function(const void* in, void* out, Parameters)`, the parameters
/// in the order of Problem::parameters().
struct Pass {
  std::string function;
  std::uint32_t blocks = 1, threads = 256;
  PassTensor in = PassTensor::convolution, out = PassTensor::output;
};

/// The passes that follow the convolution, and the source of all kernels. Besides them the source has
/// `kw_pack_weights(weights, packed)` and, where the layouts differ, `kw_convert_input(in, out)` (256 threads
/// each).
struct PassPlan {
  std::string source;
  std::vector<Pass> passes;
  std::size_t scratch_bytes[2] = {0, 0};  ///< Of the float intermediates.
  bool in_place =
      false;  ///< The convolution may write the output itself; the passes (if any) work on it in place.
};

/// `nhwc` is the layout that the library works in. `bias_done` says that the library adds the bias.
/// Element-wise steps are fused into the pass that precedes or follows; each reduction, softmax and norm is
/// one pass.
PassPlan plan_passes(const Problem& problem, bool nhwc, bool bias_done);

/// Blocks of 256 threads for a loop over `elements`.
std::uint32_t pass_blocks(std::int64_t elements);

}  // namespace knobwise
