#include "kernels/cuda/cuda_executable.h"

#include <fmt/format.h>

#include <array>

#include "kernels/cuda/resource_report.h"

namespace knobwise {

CudaExecutable::CudaExecutable(std::shared_ptr<const CudaContext> context, const KernelInstance& instance,
                               const CompiledCode& code)
    : module_(std::move(context), code.image),
      prepare_(make_steps(instance.prepare)),
      run_(make_steps(instance.run)),
      packed_bytes_(instance.packed_bytes),
      workspace_bytes_(instance.workspace_bytes),
      binary_bytes_(static_cast<std::int64_t>(code.image.size())),
      spill_bytes_(code.resources.spill_bytes) {
  arguments_.shrink();
  for (const ConstantArray& array : instance.constants) {
    if (const auto address = module_.constant(array))
      constants_.push_back({*address, array.source, array.bytes});
  }
  resources();  // finds a kernel that no multiprocessor has room for
}

std::vector<CudaExecutable::Step> CudaExecutable::make_steps(const std::vector<KernelLaunch>& launches) {
  std::vector<Step> steps;
  steps.reserve(launches.size());
  for (const KernelLaunch& launch : launches) {
    const LaunchArguments::Range arguments = arguments_.add(launch);
    steps.push_back(
        {module_.kernel(launch.function, launch.grid, launch.block, launch.dynamic_shared_bytes), arguments,
         launch.tensor_map ? std::make_unique<TensorMapArgument>(module_.context(), *launch.tensor_map)
                           : nullptr});
  }
  return steps;
}

Resources CudaExecutable::resources() const {
  Resources resources;
  for (const Step& step : run_) resources = worst_of(resources, module_.resources(step.kernel));
  // Only the assembler's report tells spills apart from other local memory.
  resources.spill_bytes = spill_bytes_;
  resources.binary_bytes = binary_bytes_;
  return resources;
}

void CudaExecutable::queue(const std::vector<Step>& steps, const Buffers& buffers, Stream stream) const {
  const CudaContext::Scope scope(module_.context());
  for (const Step& step : steps) {
    std::array<void*, KernelLaunch::kMostArguments> pointers, addresses;
    arguments_.addresses(step.arguments, buffers, pointers.data(), addresses.data());
    CUtensorMap map;
    if (step.tensor_map) {
      const std::size_t argument = step.tensor_map->argument();
      map = step.tensor_map->at(pointers.at(argument));
      addresses.at(argument) = &map;
    }
    module_.launch(step.kernel, addresses.data(), stream);
  }
}

void CudaExecutable::prepare(const Buffers& buffers, Stream stream) {
  queue(prepare_, buffers, stream);
  if (constants_.empty()) return;
  const CudaContext::Scope scope(module_.context());
  for (const auto& [address, source, bytes] : constants_) {
    const auto from = reinterpret_cast<CUdeviceptr>(buffers.resolve(source));
    module_.context().check(driver().cuMemcpyDtoDAsync(address, from, bytes, static_cast<CUstream>(stream)),
                            "cuMemcpyDtoDAsync");
  }
}

void CudaExecutable::run(const Buffers& buffers, Stream stream) {
  queue(run_, buffers, stream);
}

}  // namespace knobwise
