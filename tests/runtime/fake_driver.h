// A CUDA driver without a device, in a library named as the real one: a test that links it finds it where the
// backend looks. Kernels are launched but not run; everything else is kept account of as the driver does.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>

namespace knobwise::test {

struct FakeDriver {
  CUresult launch_result = CUDA_SUCCESS;  ///< Of launches to come.
  std::atomic<int> launches{0};
  std::atomic<int> pointer_questions{0};
  std::atomic<int> stale_uses{0};  ///< Calls with what a reset had destroyed: the real driver may crash.

  /// Memory and a stream of a device, as the application makes them.
  void* allocate(int device, std::size_t bytes);
  CUstream stream(int device);
  /// A stream of another context than the device's primary one.
  CUstream foreign_stream(int device);
  /// As cudaDeviceReset(): all that was made on the device is gone; opening it again makes a new context.
  void reset_device(int device);
};

FakeDriver& fake_driver();

}  // namespace knobwise::test
