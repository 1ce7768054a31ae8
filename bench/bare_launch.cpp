#include "bench/bare_launch.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/cpu_executable.h"
#include "kernels/cpu/thread_pool.h"
#ifdef KNOBWISE_BENCH_CUDA
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_module.h"
#include "kernels/cuda/tensor_map.h"
#endif

namespace knobwise::bench {
namespace {

// The values of a launch's arguments, in memory that stays.
std::vector<void*> values_of(const KernelLaunch& launch, const Buffers& buffers) {
  std::vector<void*> values;
  for (const BufferRef& argument : launch.arguments) {
    values.push_back(argument.slot == Slot::scalar
                         ? const_cast<char*>(launch.scalars.at(argument.index).data())
                         : buffers.resolve(argument));
  }
  return values;
}

struct CpuLaunch {
  CpuModule::Function function;
  long long tasks;
  int threads;
  std::vector<void*> values;
};

std::function<void()> cpu_launch(const std::shared_ptr<const KernelInstance>& instance,
                                 const CompiledCode& code, const Buffers& buffers) {
  const auto module = std::make_shared<CpuModule>(code.image);
  std::vector<CpuLaunch> launches;
  for (const KernelLaunch& launch : instance->run)
    launches.push_back({module->function(launch.function), launch.grid[0], static_cast<int>(launch.block[0]),
                        values_of(launch, buffers)});
  return [instance, module, launches] {
    for (const CpuLaunch& launch : launches)
      ThreadPool::instance().run(launch.function, launch.values.data(), launch.tasks, launch.threads);
  };
}

#ifdef KNOBWISE_BENCH_CUDA
struct CudaLaunch {
  CudaKernel kernel;
  std::vector<void*> values;
  std::vector<void*> addresses;
  std::unique_ptr<CUtensorMap> tensor_map;
};

std::function<void()> cuda_launch(CudaDevice& device, const std::shared_ptr<const KernelInstance>& instance,
                                  const CompiledCode& code, const Buffers& buffers) {
  const auto module = std::make_shared<CudaModule>(device.context(), code.image);
  const auto launches = std::make_shared<std::vector<CudaLaunch>>();
  for (const KernelLaunch& launch : instance->run) {
    CudaLaunch& made = launches->emplace_back(
        CudaLaunch{module->kernel(launch.function, launch.grid, launch.block, launch.dynamic_shared_bytes),
                   values_of(launch, buffers),
                   {},
                   nullptr});
    for (std::size_t i = 0; i < made.values.size(); ++i)
      made.addresses.push_back(launch.arguments[i].slot == Slot::scalar ? made.values[i] : &made.values[i]);
    if (launch.tensor_map) {
      const TensorMapArgument map(*device.context(), *launch.tensor_map);
      made.tensor_map = std::make_unique<CUtensorMap>(map.at(made.values.at(map.argument())));
      made.addresses.at(map.argument()) = made.tensor_map.get();
    }
  }
  // Current on this thread from now on.
  if (driver().cuCtxPushCurrent(device.context()->handle()) != CUDA_SUCCESS)
    throw std::runtime_error("cuCtxPushCurrent failed");
  return [instance, module, launches] {
    for (CudaLaunch& launch : *launches) {
      const auto& [function, grid, block, shared] = launch.kernel;
      if (driver().cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared,
                                  nullptr, launch.addresses.data(), nullptr) != CUDA_SUCCESS)
        throw std::runtime_error("cuLaunchKernel failed");
    }
  };
}
#endif

}  // namespace

std::function<void()> bare_launch(Device& device, const KernelInstance& instance, const CompiledCode& code,
                                  const Buffers& buffers) {
  const auto kept = std::make_shared<const KernelInstance>(instance);
#ifdef KNOBWISE_BENCH_CUDA
  if (auto* cuda = dynamic_cast<CudaDevice*>(&device)) return cuda_launch(*cuda, kept, code, buffers);
#endif
  return cpu_launch(kept, code, buffers);
}

}  // namespace knobwise::bench
