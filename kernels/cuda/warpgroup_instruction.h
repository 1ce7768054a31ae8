// The warpgroup matrix instruction (wgmma) as a device function.
#ifndef KNOBWISE_KERNELS_CUDA_WARPGROUP_INSTRUCTION_H
#define KNOBWISE_KERNELS_CUDA_WARPGROUP_INSTRUCTION_H

#include <string>
#include <string_view>

namespace knobwise {

/// Where the left operand lies: a matrix in shared memory, given by its descriptor, or 4 words of every lane.
enum class LeftOperand { shared, registers };

/// Source of `kw_multiply(float (&sums)[columns / 2], a, unsigned long long b)`, which adds the product of a
/// (64 rows) and the described matrix b (`columns` columns, a multiple of 8 up to 256) to the sums. Both hold
/// their reduction contiguously. `precision` is that of the knob; its split forms use the same instruction.
/// fp16_e5m2 has a second one in `kw_multiply_errors`, whose operands are e5m2.
std::string warpgroup_instruction(int columns, std::string_view precision, LeftOperand left);

}  // namespace knobwise

#endif  // KNOBWISE_KERNELS_CUDA_WARPGROUP_INSTRUCTION_H
