#include "kernels/cpu/host_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <unordered_set>

namespace knobwise {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct Alive {
  std::mutex mutex;
  std::unordered_set<const HostBuffer*> buffers;
};

// Never destroyed: buffers of static objects outlive any that is.
Alive& alive() {
  static Alive& buffers = *new Alive;
  return buffers;
}

}  // namespace

HostBuffer::HostBuffer(std::size_t bytes) : bytes_(bytes) {
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  data_ = std::aligned_alloc(alignment, rounded);
  if (data_ == nullptr) return;
  if (alignment == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
  const std::lock_guard lock(alive().mutex);
  alive().buffers.insert(this);
}

HostBuffer::~HostBuffer() {
  {
    const std::lock_guard lock(alive().mutex);
    alive().buffers.erase(this);
  }
  std::free(data_);
}

void HostBuffer::for_each(const std::function<void(const HostBuffer&)>& visit) {
  const std::lock_guard lock(alive().mutex);
  for (const HostBuffer* buffer : alive().buffers) visit(*buffer);
}

}  // namespace knobwise
