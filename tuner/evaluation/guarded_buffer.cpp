#include "tuner/evaluation/guarded_buffer.h"

#include <algorithm>
#include <vector>

namespace knobwise {
namespace {

// NaN of every type: what is read where nothing was written shows in the output.
constexpr unsigned char kGuardByte = 0xFF;
constexpr unsigned char kPoisonByte = 0xFF;

// The back guard begins right behind the last byte, so that an overrun by one element shows.
std::size_t total_bytes(std::size_t bytes) {
  return bytes + 2 * GuardedBuffer::kGuardBytes;
}

}  // namespace

GuardedBuffer::GuardedBuffer(Device& device, std::size_t bytes, std::string_view purpose)
    : device_(&device),
      buffer_(device.allocate(total_bytes(bytes), purpose)),
      bytes_(bytes),
      purpose_(purpose) {
  char* begin = static_cast<char*>(buffer_->data());
  device_->fill_bytes(begin, kGuardByte, kGuardBytes);
  device_->fill_bytes(begin + kGuardBytes + bytes_, kGuardByte, kGuardBytes);
}

void* GuardedBuffer::data() const {
  return static_cast<char*>(buffer_->data()) + kGuardBytes;
}

void GuardedBuffer::poison() {
  device_->fill_bytes(data(), kPoisonByte, bytes_);
}

bool GuardedBuffer::intact() const {
  const char* begin = static_cast<const char*>(buffer_->data());
  std::vector<unsigned char> guard(kGuardBytes);
  for (const char* at : {begin, begin + kGuardBytes + bytes_}) {
    device_->download(guard.data(), at, kGuardBytes);
    if (!std::all_of(guard.begin(), guard.end(), [](unsigned char byte) { return byte == kGuardByte; }))
      return false;
  }
  return true;
}

}  // namespace knobwise
