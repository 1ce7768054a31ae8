// The CPU backend: kernels compiled by the host's compiler and run by a pool of threads.
#pragma once

#include <memory>
#include <vector>

#include "kernels/ceilings.h"
#include "kernels/device.h"
#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise {

/// The families of this backend, the reference last. The objects live as long as the program; thread-safe.
const std::vector<const KernelFamily*>& cpu_families();

/// Compiles with the environment's KNOBWISE_CXX (a command, words separated by spaces), else `c++`, for the
/// processor at hand. The image is a shared object.
///
/// Throws TrialError: compile_failed with the compiler's first error, compile_timeout after
/// kCpuCompileSeconds, compile_crashed when the compiler is killed. Throws UserError when there is no
/// compiler, or no space for its files. Leaves no file behind. Thread-safe.
CompiledCode cpu_compile(const KernelInstance& instance, const DeviceInfo& target);
inline constexpr int kCpuCompileSeconds = 60;

/// The command and options of cpu_compile(), without its files. Thread-safe.
std::string cpu_compile_options(const DeviceInfo& target);
/// The first line of what the compiler says of its version; empty when it does not run. Thread-safe.
std::string cpu_compiler_version();

/// Probes for measure_ceilings(): "memory" and "fp32".
std::vector<CeilingProbe> cpu_ceiling_probes(const DeviceInfo& device);

/// Describes this machine: the processors this process may use (affinity and control group considered), their
/// caches and vectors. Thread-safe.
DeviceInfo cpu_device_info();

/// The processor as a device. Its memory is the host's; time() evicts all that is allocated from such a
/// device in this process, and other memory as far as the processor's own caches go.
std::unique_ptr<Device> open_cpu_device();

}  // namespace knobwise
