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
  for (const Step& step : run_) resources_ = worst_of(resources_, module_.resources(step.kernel));
  // Only the assembler's report tells spills apart from other local memory.
  resources_.spill_bytes = code.resources.spill_bytes;
  resources_.binary_bytes = static_cast<std::int64_t>(code.image.size());
}

CudaExecutable::Step CudaExecutable::make_step(const KernelLaunch& launch) const {
  if (launch.arguments.size() > kMaxArguments) {
    throw TrialError("load_failed", fmt::format("{} takes {} arguments, the most is {}", launch.function,
                                                launch.arguments.size(), kMaxArguments));
  }
  return {module_.kernel(launch.function, launch.grid, launch.block, launch.dynamic_shared_bytes),
          launch.arguments};
}

void CudaExecutable::queue(const std::vector<Step>& steps, const Buffers& buffers, Stream stream) const {
  const CudaContext::Scope scope(module_.context());
  for (const Step& step : steps) {
    std::array<void*, kMaxArguments> pointers{}, addresses{};
    for (std::size_t i = 0; i < step.arguments.size(); ++i) {
      pointers[i] = buffers.resolve(step.arguments[i]);
      addresses[i] = &pointers[i];
    }
    module_.launch(step.kernel, addresses.data(), stream);
  }
}

void CudaExecutable::prepare(const Buffers& buffers, Stream stream) {
  queue(prepare_, buffers, stream);
}

void CudaExecutable::run(const Buffers& buffers, Stream stream) {
  queue(run_, buffers, stream);
}

}  // namespace knobwise
