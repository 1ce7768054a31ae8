#include "kernels/cuda/cuda_context.h"

#include <fmt/format.h>

#include "kernels/device.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw UserError(describe_failure(result, call));
}

// Whether an error leaves the context unusable: the driver's list of errors after which "the process must be
// terminated and relaunched".
bool kills_context(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
      return true;
    default:
      return false;
  }
}

CUdevice find_device(int ordinal) {
  int count = 0;
  require(driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) throw UserError("the CUDA driver sees no device");
  if (ordinal < 0 || ordinal >= count) {
    throw UserError(
        fmt::format("there is no device cuda:{}; this machine has cuda:0 to cuda:{}", ordinal, count - 1));
  }
  CUdevice device = 0;
  require(driver().cuDeviceGet(&device, ordinal), "cuDeviceGet");
  return device;
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  require(driver().cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

std::string driver_version() {
  int version = 0;
  require(driver().cuDriverGetVersion(&version), "cuDriverGetVersion");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

DeviceInfo cuda_device_info(int ordinal) {
  const CUdevice device = find_device(ordinal);
  const auto get = [device](CUdevice_attribute which) { return attribute(device, which); };
  DeviceInfo info;
  info.backend = Backend::cuda;
  info.ordinal = ordinal;
  info.vendor = "NVIDIA";
  char name[256] = {};
  require(driver().cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
  info.name = name;
  info.compute_capability = 10 * get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                            get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.architecture = fmt::format("sm_{}", info.compute_capability);
  info.multiprocessors = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  std::size_t memory = 0;
  require(driver().cuDeviceTotalMem(&memory, device), "cuDeviceTotalMem");
  info.memory_bytes = static_cast<std::int64_t>(memory);
  info.clock_khz = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  info.memory_clock_khz = get(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  info.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.shared_bytes_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info.shared_bytes_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info.registers_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  info.max_threads_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  info.max_threads_per_multiprocessor = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  info.vector_bytes = 16;
  info.bf16 = info.compute_capability >= 80;
  info.driver_version = driver_version();
  return info;
}

CudaContext::CudaContext(int ordinal) : device_(find_device(ordinal)), info_(cuda_device_info(ordinal)) {
  require(driver().cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  if (driver().cuCtxGetId && driver().cuCtxGetId(context_, &id_) != CUDA_SUCCESS) id_ = 0;
  const Scope scope(*this);
  std::size_t free = 0, total = 0;
  require(driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
  info_.free_memory_bytes = static_cast<std::int64_t>(free);
}

CudaContext::~CudaContext() {
  driver().cuDevicePrimaryCtxRelease(device_);
}

CudaContext::Scope::Scope(const CudaContext& context) {
  if (!context.alive()) context.throw_dead();
  CUcontext current = nullptr;
  if (driver().cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context.context_) return;
  const CUresult result = driver().cuCtxPushCurrent(context.context_);
  if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_DEINITIALIZED) {
    context.die(describe_failure(result, "cuCtxPushCurrent"));
    context.throw_dead();
  }
  context.check(result, "cuCtxPushCurrent");
  pushed_ = true;
}

CudaContext::Scope::~Scope() {
  CUcontext popped = nullptr;
  if (pushed_) driver().cuCtxPopCurrent(&popped);
}

bool CudaContext::present() const {
  unsigned long long id = 0;
  return id_ == 0 || (driver().cuCtxGetId(context_, &id) == CUDA_SUCCESS && id == id_);
}

bool CudaContext::alive() const {
  if (dead_.load(std::memory_order_acquire)) return false;
  if (present()) return true;
  die("its context was destroyed, as cudaDeviceReset() does; open the device again");
  return false;
}

void CudaContext::die(const std::string& cause) const {
  const std::lock_guard lock(mutex_);
  if (cause_of_death_.empty()) cause_of_death_ = cause;
  dead_.store(true, std::memory_order_release);
}

void CudaContext::throw_dead() const {
  const std::lock_guard lock(mutex_);
  throw TrialError("crashed", "the device is unusable in this process since " + cause_of_death_);
}

void CudaContext::check(CUresult result, const char* call, const char* status) const {
  if (result == CUDA_SUCCESS) return;
  const std::string message = describe_failure(result, call);
  if (kills_context(result)) {
    die(message);
    throw TrialError("crashed", message);
  }
  if (result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) throw TrialError("out_of_resources", message);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) throw TrialError("out_of_memory", message);
  throw TrialError(status, message);
}

}  // namespace knobwise
