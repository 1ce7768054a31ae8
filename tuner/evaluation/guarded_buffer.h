// Device memory between two guard regions, which a kernel must leave alone.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace knobwise {

/// Owns device memory of `bytes` with kGuardBytes of NaN on either side: a kernel that reads them gives NaN,
/// one that writes them is found out. Not thread-safe.
class GuardedBuffer {
 public:
  /// Keeps the alignment of an allocation: a multiple of every vector width and page-friendly.
  static constexpr std::size_t kGuardBytes = 4096;

  /// Throws UserError when the device lacks the memory. `purpose` names the buffer in messages.
  GuardedBuffer(Device& device, std::size_t bytes, std::string_view purpose);

  void* data() const;
  std::size_t bytes() const { return bytes_; }
  const std::string& purpose() const { return purpose_; }

  /// Fills the content with NaN of every type (bytes of ones).
  void poison();
  /// True while neither guard has been written.
  bool intact() const;

 private:
  Device* device_;
  std::unique_ptr<DeviceBuffer> buffer_;
  std::size_t bytes_;
  std::string purpose_;
};

}  // namespace knobwise
