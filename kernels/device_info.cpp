#include "kernels/device_info.h"

namespace knobwise {

std::string_view to_string(Backend backend) {
  return backend == Backend::cpu ? "cpu" : "cuda";
}

std::vector<std::pair<std::string, Value>> DeviceInfo::constants() const {
  const auto integer = [](std::int64_t value) { return Value(value); };
  return {{"device_multiprocessors", integer(multiprocessors)},
          {"device_compute_capability", integer(compute_capability)},
          {"device_memory_bytes", integer(memory_bytes)},
          {"device_l1_bytes", integer(l1_bytes)},
          {"device_l2_bytes", integer(l2_bytes)},
          {"device_l3_bytes", integer(l3_bytes)},
          {"device_shared_bytes_per_block", integer(shared_bytes_per_block)},
          {"device_shared_bytes_per_multiprocessor", integer(shared_bytes_per_multiprocessor)},
          {"device_registers_per_multiprocessor", integer(registers_per_multiprocessor)},
          {"device_max_threads_per_block", integer(max_threads_per_block)},
          {"device_max_threads_per_multiprocessor", integer(max_threads_per_multiprocessor)},
          {"device_vector_bytes", integer(vector_bytes)},
          {"device_vector_registers", integer(vector_registers)},
          {"device_bf16", Value(bf16)}};
}

}  // namespace knobwise
