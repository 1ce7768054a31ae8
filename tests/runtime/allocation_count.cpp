#include "tests/runtime/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t count = 0;
}  // namespace

namespace knobwise::test {
std::size_t allocation_count() {
  return count;
}
}  // namespace knobwise::test

void* operator new(std::size_t bytes) {
  ++count;
  if (void* data = std::malloc(bytes ? bytes : 1)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept {
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  std::free(data);
}
