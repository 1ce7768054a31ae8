// The CUDA driver's entry points, loaded at run time.
#pragma once

#include <cuda.h>

#include <string>

namespace knobwise {

/// Every driver call that the backend needs; cuda.h's macros map each to the version of its declaration.
#define KW_DRIVER_CALLS(CALL)                       \
  CALL(cuInit)                                      \
  CALL(cuDriverGetVersion)                          \
  CALL(cuGetErrorName)                              \
  CALL(cuGetErrorString)                            \
  CALL(cuDeviceGetCount)                            \
  CALL(cuDeviceGet)                                 \
  CALL(cuDeviceGetName)                             \
  CALL(cuDeviceGetAttribute)                        \
  CALL(cuDeviceTotalMem)                            \
  CALL(cuDeviceGetPCIBusId)                         \
  CALL(cuDevicePrimaryCtxRetain)                    \
  CALL(cuDevicePrimaryCtxRelease)                   \
  CALL(cuCtxGetCurrent)                             \
  CALL(cuCtxPushCurrent)                            \
  CALL(cuCtxPopCurrent)                             \
  CALL(cuCtxSynchronize)                            \
  CALL(cuMemGetInfo)                                \
  CALL(cuPointerGetAttributes)                      \
  CALL(cuMemAlloc)                                  \
  CALL(cuMemFree)                                   \
  CALL(cuMemcpyHtoD)                                \
  CALL(cuMemcpyDtoH)                                \
  CALL(cuMemcpyDtoDAsync)                           \
  CALL(cuMemsetD8)                                  \
  CALL(cuMemsetD8Async)                             \
  CALL(cuModuleLoadData)                            \
  CALL(cuModuleUnload)                              \
  CALL(cuModuleGetFunction)                         \
  CALL(cuModuleGetGlobal)                           \
  CALL(cuFuncGetAttribute)                          \
  CALL(cuFuncSetAttribute)                          \
  CALL(cuLaunchKernel)                              \
  CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  CALL(cuStreamCreate)                              \
  CALL(cuStreamDestroy)                             \
  CALL(cuStreamSynchronize)                         \
  CALL(cuStreamGetCtx)                              \
  CALL(cuStreamBeginCapture)                        \
  CALL(cuStreamEndCapture)                          \
  CALL(cuGraphInstantiateWithFlags)                 \
  CALL(cuGraphLaunch)                               \
  CALL(cuGraphDestroy)                              \
  CALL(cuGraphExecDestroy)                          \
  CALL(cuEventCreate)                               \
  CALL(cuEventRecord)                               \
  CALL(cuEventSynchronize)                          \
  CALL(cuEventElapsedTime)                          \
  CALL(cuEventDestroy)

/// Calls that some kernels or checks need; null where the driver does not have them.
#define KW_OPTIONAL_DRIVER_CALLS(CALL) \
  CALL(cuCtxGetId)                     \
  CALL(cuTensorMapEncodeTiled)         \
  CALL(cuTensorMapReplaceAddress)

/// Pointers to the calls, under their names in cuda.h. Immutable once loaded; thread-safe as the driver is.
struct Driver {
#define KW_DECLARE(name) decltype(&::name) name = nullptr;
  KW_DRIVER_CALLS(KW_DECLARE)
  KW_OPTIONAL_DRIVER_CALLS(KW_DECLARE)
#undef KW_DECLARE
};

/// The driver, loaded and initialised on the first call; null when it cannot be used: driver_problem() says
/// why.
const Driver* find_driver();
/// One line for people: what is missing, or what the driver answered; empty when there is a driver.
const std::string& driver_problem();
/// As find_driver(), but throws UserError with driver_problem().
const Driver& driver();

/// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string describe_failure(CUresult result, const char* call);

}  // namespace knobwise
