// A kernel's launches with nothing around them: what Plan::run is compared with.
#pragma once

#include <functional>

#include "kernels/device.h"

namespace knobwise::bench {

/// A call that queues the launches of `instance` (CPU: runs them) on the buffers, which must be prepared and
/// outlive it, as an application does that hard-codes them: loaded code, arguments at hand, context current.
std::function<void()> bare_launch(Device& device, const KernelInstance& instance, const CompiledCode& code,
                                  const Buffers& buffers);

}  // namespace knobwise::bench
