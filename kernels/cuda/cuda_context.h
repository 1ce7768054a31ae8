// One device's context and what the process knows of its health.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cuda/driver.h"
#include "kernels/device_info.h"

namespace knobwise {

/// The primary context of one device: the one that the CUDA run time of an application uses, so that pointers
/// and streams are common. Everything made in it holds a shared_ptr to it. Thread-safe.
///
/// A faulting kernel kills the context for the whole process. From then on alive() is false and check() of
/// anything throws TrialError (crashed); only a new process helps. The same holds for this object once the
/// application has reset the device, after which a new CudaContext serves.
class CudaContext {
 public:
  /// Throws UserError naming the devices there are.
  explicit CudaContext(int ordinal);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  /// Makes the context current on this thread until the end of the scope. Throws TrialError (crashed) if it
  /// is dead.
  class Scope {
   public:
    explicit Scope(const CudaContext& context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    bool pushed_ = false;
  };

  CUdevice device() const { return device_; }
  CUcontext handle() const { return context_; }
  const DeviceInfo& info() const { return info_; }
  bool alive() const;

  /// Throws TrialError for a failed call: "crashed" if the context is lost with it, "out_of_resources" for
  /// too many registers, threads or too much shared memory, "out_of_memory", else `status`.
  void check(CUresult result, const char* call, const char* status = "launch_failed") const;

 private:
  // Whether the driver still has the context that was opened, not another in its place.
  bool present() const;
  void die(const std::string& cause) const;
  [[noreturn]] void throw_dead() const;

  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  unsigned long long id_ = 0;  // 0 where the driver gives none
  DeviceInfo info_;
  mutable std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;
  mutable std::string cause_of_death_;  // under mutex_
};

/// The properties of a device as the driver gives them; opens no context, so the free memory is left 0.
DeviceInfo cuda_device_info(int ordinal);

}  // namespace knobwise
