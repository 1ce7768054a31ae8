// What a caller hands to a kernel, checked before the device sees it: a wrong pointer would cost the context.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/cuda/cuda_context.h"
#include "kernels/device.h"

namespace knobwise {

/// Why a kernel of this context cannot use [data, data + bytes); nothing when it can: device memory of this
/// context, managed memory, or host memory that is mapped at its own address. Costs a driver call, some
/// hundred nanoseconds. Thread-safe. Throws TrialError (crashed) for a dead context.
std::optional<std::string> cuda_memory_problem(const CudaContext& context, const void* data,
                                               std::size_t bytes);

/// Why a kernel of this context cannot be queued on a stream; nothing when it can. Likewise.
std::optional<std::string> cuda_stream_problem(const CudaContext& context, Stream stream);

}  // namespace knobwise
