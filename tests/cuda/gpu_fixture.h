// What the tests on a device share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/device.h"
#include "kernels/operands.h"
#include "kernels/problem.h"
#include "kernels/tensors.h"

namespace knobwise {

/// A test on the first CUDA device; skips with the reason where there is none.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> notes;
    if (cuda_device_infos(&notes).empty()) GTEST_SKIP() << (notes.empty() ? "no CUDA device" : notes.front());
    device_ = open_cuda_device(0);
  }

  Device& device() { return *device_; }

  std::unique_ptr<Executable> compile_and_load(const KernelInstance& instance) {
    return device_->load(instance, cuda_compile(instance, device_->info()));
  }

 private:
  std::unique_ptr<Device> device_;
};

/// The tensors of a problem on a device, inputs filled for a distribution; the output holds 0xFF bytes (NaN).
class DeviceTensors {
 public:
  DeviceTensors(Device& device, const Problem& problem) : device_(device), problem_(problem) {
    buffers_ = allocate_tensors(problem, [this](std::size_t bytes, std::string_view purpose) {
      return tensors_.emplace_back(device_.allocate(bytes, purpose))->data();
    });
  }

  void fill(Distribution distribution, std::uint64_t seed) {
    fill_tensors(device_, problem_, buffers_, distribution, seed);
    poison_output(device_, problem_, buffers_);
  }

  /// Prepares and runs once, with packed memory and workspace of its own.
  void run(Executable& executable) {
    packed_ = device_.allocate(executable.packed_bytes(), "packed");
    workspace_ = device_.allocate(executable.workspace_bytes(), "workspace");
    buffers_.packed = packed_->data();
    buffers_.workspace = workspace_->data();
    executable.prepare(buffers_, nullptr);
    executable.run(buffers_, nullptr);
    device_.synchronize();
  }

  ErrorMetrics verify() { return device_.verify(problem_, buffers_, OutputTile{}, 1); }

  const Buffers& buffers() const { return buffers_; }

 private:
  Device& device_;
  Problem problem_;
  std::vector<std::unique_ptr<DeviceBuffer>> tensors_;
  std::unique_ptr<DeviceBuffer> packed_, workspace_;
  Buffers buffers_;
};

/// A kernel instance of one launch with the output as its argument.
inline KernelInstance one_kernel(const std::string& source, const std::string& function,
                                 std::uint32_t threads, std::uint32_t dynamic_shared_bytes = 0) {
  KernelInstance instance;
  instance.source = source;
  instance.run = {
      KernelLaunch{function, {1, 1, 1}, {threads, 1, 1}, dynamic_shared_bytes, {{Slot::output, 0}}}};
  return instance;
}

/// The status of the TrialError that `action` throws; empty if it throws none.
template <class Action>
std::string trial_status(Action action) {
  try {
    action();
  } catch (const TrialError& error) {
    return error.status();
  }
  return {};
}

}  // namespace knobwise
