// The tensors of a problem on a device: where they are and what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "kernels/accuracy.h"
#include "kernels/device.h"
#include "kernels/problem.h"

namespace knobwise {

/// Bytes of `elements` elements of the problem's type.
std::size_t tensor_bytes(const Problem& problem, std::int64_t elements);

/// Gets device memory of a size for a purpose that messages name; keeps it as long as it must live.
using TensorAllocator = std::function<void*(std::size_t bytes, std::string_view purpose)>;

/// Addresses of the input, every parameter and the output, each from one call of `allocate`.
Buffers allocate_tensors(const Problem& problem, const TensorAllocator& allocate);

/// Fills the input and every parameter as operand_fill() defines them.
void fill_tensors(Device& device, const Problem& problem, const Buffers& buffers, Distribution distribution,
                  std::uint64_t seed);

/// Fills the output with NaN of every type (bytes of ones), so that what is not written shows.
void poison_output(Device& device, const Problem& problem, const Buffers& buffers);

}  // namespace knobwise
