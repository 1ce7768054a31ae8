// Counts what a thread allocates with operator new, which this replaces for the whole program.
#pragma once

#include <cstddef>

namespace knobwise::test {

/// Calls of operator new by this thread so far.
std::size_t allocation_count();

}  // namespace knobwise::test
