// The oracle's loop over independent pieces of work.
#pragma once

#include <cstdint>
#include <functional>

namespace knobwise {

/// Calls body(i) for every i in [0, count), each once, on up to `threads` threads (<= 0: all cores), the
/// caller's included; returns when all are done. The body must not throw.
void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body);

}  // namespace knobwise
