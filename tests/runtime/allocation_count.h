// Counts what is allocated with operator new, which this replaces for the whole program.
#pragma once

#include <cstddef>

namespace knobwise::test {

/// Calls of operator new by this thread so far.
std::size_t allocation_count();

/// Bytes of the whole program that operator new gave and nobody freed, as malloc rounds them.
std::size_t allocated_bytes();

}  // namespace knobwise::test
