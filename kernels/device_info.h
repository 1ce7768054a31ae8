// What a device is, as far as results and search spaces depend on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_spaces/value.h"

namespace knobwise {

enum class Backend { cpu, cuda };
std::string_view to_string(Backend backend);

/// Properties of a device; figures that a backend does not have are 0. A value type.
struct DeviceInfo {
  Backend backend = Backend::cpu;
  int ordinal = 0;             ///< Where to find it now; never part of its identity.
  std::string vendor;          ///< "NVIDIA", "AuthenticAMD", ...
  std::string name;            ///< "NVIDIA H200", the processor's model name.
  std::string architecture;    ///< "sm_90", "x86-64-v4".
  int compute_capability = 0;  ///< CUDA: 10 * major + minor.
  int multiprocessors = 0;     ///< CUDA multiprocessors; CPU: hardware threads this process may use.
  std::int64_t memory_bytes = 0;
  std::int64_t free_memory_bytes = 0;  ///< When asked; not part of the identity.
  std::int64_t clock_khz = 0;
  std::int64_t memory_clock_khz = 0;
  std::int64_t l1_bytes = 0;  ///< CPU: level-1 data cache of a core.
  std::int64_t l2_bytes = 0;  ///< CUDA: the whole L2; CPU: level 2 of a core.
  std::int64_t l3_bytes = 0;
  std::int64_t shared_bytes_per_block = 0;  ///< With the opt-in.
  std::int64_t shared_bytes_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int vector_bytes = 0;          ///< CPU: widest vector registers; CUDA: 16.
  int vector_registers = 0;      ///< CPU: 16 or 32.
  bool bf16 = false;             ///< The device multiplies bf16 natively.
  std::string driver_version;    ///< CUDA driver ("13.0"), or the kernel of the operating system.

  /// The figures under the names constraints use, with the prefix `device_` (device_multiprocessors,
  /// device_vector_bytes, ...).
  std::vector<std::pair<std::string, Value>> constants() const;
};

}  // namespace knobwise
