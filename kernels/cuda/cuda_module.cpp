#include "kernels/cuda/cuda_module.h"

#include <fmt/format.h>

namespace knobwise {
namespace {

// Shared memory that a block gets without opting in to more.
constexpr int kPlainSharedBytes = 48 * 1024;
constexpr std::uint32_t kMaxGridX = 2147483647, kMaxGridYZ = 65535;

[[noreturn]] void refuse(const std::string& function, const std::string& what, std::int64_t wanted,
                         std::int64_t most) {
  throw TrialError("out_of_resources",
                   fmt::format("{} needs {} {}, the device allows {}", function, wanted, what, most));
}

void check_grid(const std::string& function, const LaunchExtents& grid) {
  const std::uint32_t most[] = {kMaxGridX, kMaxGridYZ, kMaxGridYZ};
  for (int i = 0; i < 3; ++i) {
    if (grid[i] >= 1 && grid[i] <= most[i]) continue;
    throw TrialError("launch_failed",
                     fmt::format("{} needs {} blocks in dimension {} of the grid, the most is {}", function,
                                 grid[i], "xyz"[i], most[i]));
  }
}

}  // namespace

CudaModule::CudaModule(std::shared_ptr<const CudaContext> context, const std::string& image)
    : context_(std::move(context)) {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuModuleLoadData(&module_, image.data()), "cuModuleLoadData", "load_failed");
}

CudaModule::~CudaModule() {
  if (!context_->alive()) return;
  const CudaContext::Scope scope(*context_);
  driver().cuModuleUnload(module_);
}

int CudaModule::attribute(CUfunction function, CUfunction_attribute which) const {
  int value = 0;
  context_->check(driver().cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute", "load_failed");
  return value;
}

CudaKernel CudaModule::kernel(const std::string& function, LaunchExtents grid, LaunchExtents block,
                              std::uint32_t dynamic_shared_bytes) const {
  const CudaContext::Scope scope(*context_);
  CudaKernel kernel{nullptr, grid, block, dynamic_shared_bytes};
  context_->check(driver().cuModuleGetFunction(&kernel.function, module_, function.c_str()),
                  "cuModuleGetFunction", "load_failed");
  check_grid(function, grid);
  const DeviceInfo& info = context_->info();
  const std::int64_t threads = std::int64_t{block[0]} * block[1] * block[2];
  const int most_threads = attribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (threads > most_threads)
    refuse(function, "threads a block at its register count", threads, most_threads);
  const std::int64_t shared =
      std::int64_t{dynamic_shared_bytes} + attribute(kernel.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  if (shared > info.shared_bytes_per_block) {
    refuse(function, "bytes of shared memory a block", shared, info.shared_bytes_per_block);
  }
  if (shared > kPlainSharedBytes) {
    context_->check(
        driver().cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    static_cast<int>(dynamic_shared_bytes)),
        "cuFuncSetAttribute", "out_of_resources");
  }
  return kernel;
}

std::optional<CUdeviceptr> CudaModule::constant(const ConstantArray& array) const {
  const CudaContext::Scope scope(*context_);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  const CUresult result = driver().cuModuleGetGlobal(&address, &bytes, module_, array.name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    if (!array.required) return std::nullopt;
    throw TrialError("load_failed", fmt::format("the code has no __constant__ array {}", array.name));
  }
  context_->check(result, "cuModuleGetGlobal", "load_failed");
  if (bytes < array.bytes) {
    throw TrialError("load_failed", fmt::format("the __constant__ array {} has {} bytes, the argument {}",
                                                array.name, bytes, array.bytes));
  }
  return address;
}

Resources CudaModule::resources(const CudaKernel& kernel) const {
  const CudaContext::Scope scope(*context_);
  const int threads = static_cast<int>(kernel.block[0] * kernel.block[1] * kernel.block[2]);
  int blocks = 0;
  context_->check(driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function, threads,
                                                                       kernel.dynamic_shared_bytes),
                  "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (blocks == 0) throw TrialError("out_of_resources", "no block of this kernel fits on a multiprocessor");
  const int warps = (threads + 31) / 32;
  Resources resources;
  resources.registers = attribute(kernel.function, CU_FUNC_ATTRIBUTE_NUM_REGS);
  resources.stack_bytes = attribute(kernel.function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  resources.static_shared_bytes = attribute(kernel.function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  resources.dynamic_shared_bytes = static_cast<int>(kernel.dynamic_shared_bytes);
  const double grid = static_cast<double>(kernel.grid[0]) * kernel.grid[1] * kernel.grid[2];
  resources.waves = grid / (static_cast<double>(blocks) * context_->info().multiprocessors);
  resources.occupancy = 32.0 * warps * blocks / context_->info().max_threads_per_multiprocessor;
  return resources;
}

void CudaModule::launch(const CudaKernel& kernel, void** arguments, Stream stream) const {
  const auto& [function, grid, block, shared] = kernel;
  context_->check(driver().cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                                          shared, static_cast<CUstream>(stream), arguments, nullptr),
                  "cuLaunchKernel");
}

}  // namespace knobwise
