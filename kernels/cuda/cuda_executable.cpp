#include "kernels/cuda/cuda_executable.h"

#include <fmt/format.h>

#include <array>

#include "kernels/cuda/resource_report.h"

namespace knobwise {

CudaExecutable::CudaExecutable(std::shared_ptr<const CudaContext> context, const KernelInstance& instance,
                               const CompiledCode& code)
    : module_(std::move(context), code.image),
      packed_bytes_(instance.packed_bytes),
      workspace_bytes_(instance.workspace_bytes) {
  for (const KernelLaunch& launch : instance.prepare) prepare_.push_back(make_step(launch));
  for (const KernelLaunch& launch : instance.run) run_.push_back(make_step(launch));
  for (const ConstantArray& array : instance.constants) {
    if (const auto address = module_.constant(array)) constants_.push_back({*address, array});
  }
  for (const Step& step : run_) resources_ = worst_of(resources_, module_.resources(step.kernel));
  // Only the assembler's report tells spills apart from other local memory.
  resources_.spill_bytes = code.resources.spill_bytes;
  resources_.binary_bytes = static_cast<std::int64_t>(code.image.size());
}

CudaExecutable::Step CudaExecutable::make_step(const KernelLaunch& launch) const {
  check_arguments(launch);
  return {module_.kernel(launch.function, launch.grid, launch.block, launch.dynamic_shared_bytes),
          launch.arguments, launch.scalars};
}

void CudaExecutable::queue(const std::vector<Step>& steps, const Buffers& buffers, Stream stream) const {
  const CudaContext::Scope scope(module_.context());
  for (const Step& step : steps) {
    std::array<void*, KernelLaunch::kMostArguments> pointers, addresses;
    for (std::size_t i = 0; i < step.arguments.size(); ++i) {
      const BufferRef argument = step.arguments[i];
      if (argument.slot == Slot::scalar) {
        // The driver only reads it.
        addresses[i] = const_cast<char*>(step.scalars[argument.index].data());
      } else {
        pointers[i] = buffers.resolve(argument);
        addresses[i] = &pointers[i];
      }
    }
    module_.launch(step.kernel, addresses.data(), stream);
  }
}

void CudaExecutable::prepare(const Buffers& buffers, Stream stream) {
  queue(prepare_, buffers, stream);
  if (constants_.empty()) return;
  const CudaContext::Scope scope(module_.context());
  for (const auto& [address, array] : constants_) {
    const auto source = reinterpret_cast<CUdeviceptr>(buffers.resolve(array.source));
    module_.context().check(
        driver().cuMemcpyDtoDAsync(address, source, array.bytes, static_cast<CUstream>(stream)),
        "cuMemcpyDtoDAsync");
  }
}

void CudaExecutable::run(const Buffers& buffers, Stream stream) {
  queue(run_, buffers, stream);
}

}  // namespace knobwise
