#include "kernels/cuda/nvml.h"

#include "kernels/cuda/shared_library.h"

namespace knobwise {
namespace {

// The toolkit's headers need not include nvml.h: these are its types and numbers, which are stable.
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr int kSuccess = 0;
constexpr int kMultiprocessorClock = 1;  // NVML_CLOCK_SM
constexpr int kGpuSensor = 0;            // NVML_TEMPERATURE_GPU

struct Nvml {
  int (*init)() = nullptr;
  int (*handle_by_address)(const char*, NvmlDevice*) = nullptr;
  int (*clock_mhz)(NvmlDevice, int, unsigned*) = nullptr;
  int (*temperature_c)(NvmlDevice, int, unsigned*) = nullptr;
  bool usable = false;
};

Nvml load() {
  Nvml nvml;
  const SharedLibrary library({"libnvidia-ml.so.1"}, {});
  nvml.init = library.find<decltype(nvml.init)>("nvmlInit_v2");
  nvml.handle_by_address = library.find<decltype(nvml.handle_by_address)>("nvmlDeviceGetHandleByPciBusId_v2");
  nvml.clock_mhz = library.find<decltype(nvml.clock_mhz)>("nvmlDeviceGetClockInfo");
  nvml.temperature_c = library.find<decltype(nvml.temperature_c)>("nvmlDeviceGetTemperature");
  nvml.usable =
      nvml.init && nvml.handle_by_address && nvml.clock_mhz && nvml.temperature_c && nvml.init() == kSuccess;
  return nvml;
}

}  // namespace

DeviceState nvml_state(const std::string& pci_address) {
  static const Nvml nvml = load();
  DeviceState state;
  NvmlDevice device = nullptr;
  if (!nvml.usable || nvml.handle_by_address(pci_address.c_str(), &device) != kSuccess) return state;
  unsigned value = 0;
  if (nvml.clock_mhz(device, kMultiprocessorClock, &value) == kSuccess && value > 0)
    state.clock_khz = 1000 * static_cast<std::int64_t>(value);
  if (nvml.temperature_c(device, kGpuSensor, &value) == kSuccess) state.temperature_c = value;
  return state;
}

}  // namespace knobwise
