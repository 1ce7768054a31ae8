// The CUDA backend, as the rest of the program sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/ceilings.h"
#include "kernels/device.h"
#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise {

/// The families of the backend, reference last. The objects live as long as the program.
const std::vector<const KernelFamily*>& cuda_families();

/// Compiles to machine code for exactly the target's architecture; needs NVRTC but no device. Throws
/// TrialError (compile_failed), or UserError without NVRTC. Thread-safe.
CompiledCode cuda_compile(const KernelInstance& instance, const DeviceInfo& target);

/// NVRTC's options of cuda_compile(). Thread-safe.
std::string cuda_compile_options(const DeviceInfo& target);
/// "NVRTC 13.0"; empty when there is none. Thread-safe.
std::string cuda_compiler_version();

/// Probes for measure_ceilings(): "memory", "fp32", and "tf32", "fp16" and "bf16" with fp32 accumulation.
std::vector<CeilingProbe> cuda_ceiling_probes(const DeviceInfo& device);

/// Every CUDA device of this machine, by ordinal. Adds to `notes`, if given, one line for each thing that is
/// missing (headers at build time, driver, run-time compiler, devices).
std::vector<DeviceInfo> cuda_device_infos(std::vector<std::string>* notes);

/// Opens a device by ordinal; throws UserError that says which there are.
std::unique_ptr<Device> open_cuda_device(int ordinal);

/// Describes a common device of a compute capability (80: A100, 86: A10, 89: L4, 90: H200, 100: B200, 120:
/// RTX 5090) for binding spaces and compiling where there is none. The limits are those of the CUDA C++
/// Programming Guide's table of technical specifications. Throws UserError for any other capability.
DeviceInfo cuda_target_info(int compute_capability);

}  // namespace knobwise
