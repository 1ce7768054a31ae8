#include "tests/runtime/allocation_count.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
thread_local std::size_t count = 0;
std::atomic<std::size_t> bytes_in_use{0};
}  // namespace

namespace knobwise::test {
std::size_t allocation_count() {
  return count;
}
std::size_t allocated_bytes() {
  return bytes_in_use;
}
}  // namespace knobwise::test

void* operator new(std::size_t bytes) {
  ++count;
  void* data = std::malloc(bytes ? bytes : 1);
  if (!data) throw std::bad_alloc();
  bytes_in_use += malloc_usable_size(data);
  return data;
}
// What std::stable_sort() asks for. Not left to the library: a sanitizer's would not go with delete below.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return operator new(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* data) noexcept {
  if (data) bytes_in_use -= malloc_usable_size(data);
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  operator delete(data);
}
