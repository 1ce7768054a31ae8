#include "tests/runtime/fake_driver.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

// The objects that the driver's handles point to.
struct CUctx_st {
  int device = 0;
  unsigned long long id = 0;
  bool alive = false;
};
struct CUmod_st {
  CUcontext context = nullptr;
  unsigned long long id = 0;  // of the context when it was made
};
struct CUfunc_st {
  CUmodule module = nullptr;
};
struct CUstream_st {
  CUcontext context = nullptr;
};

namespace knobwise::test {
namespace {

constexpr int kDevices = 2;

struct Memory {
  CUcontext context;
  std::size_t bytes;
};

// Never freed: a stale handle must stay recognisable.
struct State {
  std::mutex mutex;
  CUctx_st primary[kDevices], foreign[kDevices];
  unsigned long long contexts = 0;
  std::map<CUdeviceptr, Memory> memory;
  std::deque<CUmod_st> modules;
  std::deque<CUfunc_st> functions;
  std::deque<CUstream_st> streams;

  State() {
    for (int device = 0; device < kDevices; ++device) {
      primary[device].device = foreign[device].device = device;
      revive(foreign[device]);
    }
  }
  void revive(CUctx_st& context) {
    if (context.alive) return;
    context.id = ++contexts;
    context.alive = true;
  }
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

std::vector<CUcontext>& stack() {
  thread_local std::vector<CUcontext> contexts;
  return contexts;
}

CUcontext current() {
  return stack().empty() ? nullptr : stack().back();
}

// What most calls need: a live current context.
CUresult usable() {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  return current()->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool stale(CUmodule module) {
  const bool gone = !module->context->alive || module->context->id != module->id;
  if (gone) ++fake_driver().stale_uses;
  return gone;
}

bool is_default(CUstream stream) {
  return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

CUdeviceptr allocate_in(CUcontext context, std::size_t bytes) {
  const std::size_t rounded = (bytes + 255) / 256 * 256;
  const auto address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, rounded));
  const std::lock_guard lock(state().mutex);
  state().memory[address] = {context, bytes};
  return address;
}

}  // namespace

FakeDriver& fake_driver() {
  static FakeDriver* const instance = new FakeDriver;
  return *instance;
}

void* FakeDriver::allocate(int device, std::size_t bytes) {
  return reinterpret_cast<void*>(allocate_in(&state().primary[device], bytes));
}

CUstream FakeDriver::stream(int device) {
  return &state().streams.emplace_back(CUstream_st{&state().primary[device]});
}

CUstream FakeDriver::foreign_stream(int device) {
  return &state().streams.emplace_back(CUstream_st{&state().foreign[device]});
}

void FakeDriver::reset_device(int device) {
  const std::lock_guard lock(state().mutex);
  CUctx_st& context = state().primary[device];
  context.alive = false;
  std::erase_if(state().memory, [&](const auto& entry) {
    if (entry.second.context != &context) return false;
    std::free(reinterpret_cast<void*>(entry.first));
    return true;
  });
}

}  // namespace knobwise::test

using namespace knobwise::test;

CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_FAKED";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "as the test asked";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = kDevices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 8;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 108;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = 163 * 1024;
      break;
    default:
      *value = 65536;
  }
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{40} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* text, int bytes, CUdevice) {
  std::strncpy(text, "0000:00:00.0", static_cast<std::size_t>(bytes));
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const std::lock_guard lock(state().mutex);
  *context = &state().primary[device];
  state().revive(**context);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = context->id;
  return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current();
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  stack().push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  *context = current();
  if (!stack().empty()) stack().pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize() {
  return usable();
}
CUresult cuMemGetInfo(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = std::size_t{40} << 30;
  return usable();
}
CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  if (const CUresult result = usable(); result != CUDA_SUCCESS) return result;
  *address = allocate_in(current(), bytes);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr address) {
  const std::lock_guard lock(state().mutex);
  if (state().memory.erase(address) == 0) {
    ++fake_driver().stale_uses;
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  ++fake_driver().pointer_questions;
  const std::lock_guard lock(state().mutex);
  auto entry = state().memory.upper_bound(address);
  if (entry == state().memory.begin()) return CUDA_SUCCESS;
  --entry;
  const auto& [begin, memory] = *entry;
  if (address >= begin + memory.bytes) return CUDA_SUCCESS;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = CU_MEMORYTYPE_DEVICE;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = memory.context->device;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(values[i]) = memory.context;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr*>(values[i]) = begin;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<std::size_t*>(values[i]) = memory.bytes;
        break;
      default:
        break;
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return usable();
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return usable();
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr, CUdeviceptr, std::size_t, CUstream) {
  return usable();
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t bytes) {
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return usable();
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream) {
  return cuMemsetD8(to, value, bytes);
}
CUresult cuModuleLoadData(CUmodule* module, const void*) {
  if (const CUresult result = usable(); result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(state().mutex);
  *module = &state().modules.emplace_back(CUmod_st{current(), current()->id});
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  return stale(module) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char*) {
  const std::lock_guard lock(state().mutex);
  *function = &state().functions.emplace_back(CUfunc_st{module});
  return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal(CUdeviceptr*, std::size_t*, CUmodule, const char*) {
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) {
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int, std::size_t) {
  *blocks = 4;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream stream, void**, void**) {
  if (const CUresult result = usable(); result != CUDA_SUCCESS) return result;
  if (stale(function->module) || (!is_default(stream) && stream->context != current()))
    return CUDA_ERROR_INVALID_HANDLE;
  ++fake_driver().launches;
  return fake_driver().launch_result;
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  *context = stream->context;
  return stream->context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

// Of these the backend only wants that they are there.
CUresult cuStreamCreate(CUstream*, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamDestroy(CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamSynchronize(CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamEndCapture(CUstream, CUgraph*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphDestroy(CUgraph) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphExecDestroy(CUgraphExec) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuEventCreate(CUevent*, unsigned) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuEventSynchronize(CUevent) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuEventElapsedTime(float*, CUevent, CUevent) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuEventDestroy(CUevent) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
