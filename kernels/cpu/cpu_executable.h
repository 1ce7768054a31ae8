// Compiled code of the CPU backend, loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace knobwise {

/// A shared object in memory, unloaded on destruction. Throws TrialError (launch_failed) if the image cannot
/// be loaded or lacks a function.
class CpuModule {
 public:
  explicit CpuModule(const std::string& image);
  ~CpuModule();
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;

  using Function = void (*)(void* const* arguments, long long task);
  Function function(const std::string& name) const;

 private:
  void* handle_ = nullptr;
};

/// An instance with its code.
std::unique_ptr<Executable> load_cpu_executable(const KernelInstance& instance, const CompiledCode& code);

}  // namespace knobwise
