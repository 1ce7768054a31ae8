// Timing of device work.
#pragma once

#include <functional>
#include <memory>

#include "kernels/cuda/cuda_context.h"
#include "kernels/device.h"

namespace knobwise {

/// Times work on a stream of its own with the device's events: the L2 is overwritten before each sample,
/// outside the timed region, and each sample replays one run captured as a graph, so that no launch overhead
/// is in it. Work that cannot be captured is launched directly. Not thread-safe.
class CudaTimer {
 public:
  /// Allocates the memory whose overwriting flushes the L2: four times its size, and at least 256 MB. Throws
  /// UserError when that does not fit.
  explicit CudaTimer(Device& device, std::shared_ptr<const CudaContext> context);
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  /// `work` queues one run on the stream it is given. Throws TrialError if it fails.
  Timing time(const std::function<void(Stream)>& work, const TimingOptions& options);

 private:
  float sample_us(const std::function<void()>& replay);

  std::shared_ptr<const CudaContext> context_;
  std::unique_ptr<DeviceBuffer> flushed_;
  CUstream stream_ = nullptr;
  CUevent start_ = nullptr, stop_ = nullptr;
};

}  // namespace knobwise
