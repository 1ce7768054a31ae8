// NVIDIA's management library, loaded at run time: the sensors of a GPU.
#pragma once

#include <string>

#include "kernels/device.h"

namespace knobwise {

/// What the sensors of the GPU at a PCI address ("0000:0a:00.0") say; nothing where the library is missing or
/// refuses. Reads only: clocks are never changed. Thread-safe.
DeviceState nvml_state(const std::string& pci_address);

}  // namespace knobwise
