#include "tuner/evaluation/test_bench.h"

namespace knobwise {

GuardedBuffer& TestBench::add(std::size_t bytes, std::string_view purpose) {
  return *memory_.emplace_back(std::make_unique<GuardedBuffer>(device_, bytes, purpose));
}

const GuardedBuffer* TestBench::damaged() const {
  for (const auto& buffer : memory_) {
    if (!buffer->intact()) return buffer.get();
  }
  return nullptr;
}

}  // namespace knobwise
