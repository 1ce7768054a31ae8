// The CPU's device memory: the host's.
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/device.h"

namespace knobwise {

/// Aligned host memory; pages appear as they are touched. Null where the system refuses.
class HostBuffer : public DeviceBuffer {
 public:
  explicit HostBuffer(std::size_t bytes);
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  void* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

  /// Calls `visit` with every buffer of this process; none is made or freed meanwhile. Thread-safe.
  static void for_each(const std::function<void(const HostBuffer&)>& visit);

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace knobwise
