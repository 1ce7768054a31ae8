// Makes a kernel find its data in memory, not in a cache that its last run filled.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "kernels/cpu/host_buffer.h"
#include "kernels/device_info.h"

namespace knobwise {

/// Empties the caches before a sample is taken. Not thread-safe.
class CacheFlush {
 public:
  enum class Method {
    lines,   ///< Evicts the lines of every HostBuffer from every cache, and all else from those of each core.
    stream,  ///< Reads more memory than the last cache holds.
  };

  /// What the processor allows: `lines` needs the instruction clflushopt of x86.
  static Method best_method();

  /// For the processor described; `method` must not exceed what it allows.
  CacheFlush(const DeviceInfo& cpu, Method method);

  /// Returns when the caches are empty; nothing is left for the next run to write back.
  void run();

 private:
  void evict_lines();
  void read_on_every_core();
  void read_all();

  const Method method_;
  const int cores_;
  HostBuffer read_;
  std::atomic<int> arrived_{0};
};

}  // namespace knobwise
