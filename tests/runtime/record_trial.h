// Puts a configuration on record as if it had been tuned.
#pragma once

#include <cstdint>

#include "db/store.h"
#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise::test {

/// The id of the trial, measured with the software at hand on the device.
std::int64_t record_trial(Store& store, const DeviceInfo& device, const Problem& problem,
                          const KernelFamily& family, const Configuration& configuration, double time_us,
                          const ErrorMetrics& error);

}  // namespace knobwise::test
