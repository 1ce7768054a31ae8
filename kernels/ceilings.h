// Measuring what a device delivers at most: the ceilings of the roofline.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace knobwise {

/// A kernel that does nothing but use one resource. A value type.
struct CeilingProbe {
  std::string resource;  ///< "memory", or an arithmetic: "fp32", "tf32", "fp16", "bf16".
  double work = 0;       ///< Of one run: bytes read plus written, or FLOP.
  KernelInstance instance;
  std::size_t input_bytes = 0, output_bytes = 0;
  DType dtype = DType::f32;  ///< What the input is filled with.
};

/// Measured ceilings by resource: "memory" in bytes a second (read plus written), an arithmetic in FLOP a
/// second.
using MeasuredCeilings = std::map<std::string, double>;

/// Runs every probe of the device's backend and keeps the highest rate of each resource. Takes seconds; the
/// device should have nothing else to do. Throws what compiling, allocating and running throw.
MeasuredCeilings measure_ceilings(Device& device);

}  // namespace knobwise
