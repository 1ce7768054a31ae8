// The process that measures on one device, started again whenever it is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/problem.h"
#include "tuner/evaluation/worker_process.h"

namespace knobwise {

/// Owns a `measure` worker that holds one problem on one device. Movable; not thread-safe.
class MeasuringWorker {
 public:
  /// Starts nothing yet. `executable` is what the worker runs; `seed` that of the verification's inputs.
  MeasuringWorker(std::string executable, std::string device, const Problem& problem, std::uint64_t seed)
      : executable_(std::move(executable)), device_(std::move(device)), problem_(problem), seed_(seed) {}

  /// Starts a process in place of the present one, and lets it open the device while the caller goes on.
  void launch();
  /// Waits until the launched process holds the problem. Throws UserError when the device cannot,
  /// std::runtime_error when the process keeps dying.
  void wait_until_open();
  void restart() {
    launch();
    wait_until_open();
  }

  const std::string& device() const { return device_; }
  /// Requires launch().
  WorkerProcess& process() { return *process_; }

 private:
  std::string executable_, device_;
  Problem problem_;
  std::uint64_t seed_;
  std::optional<WorkerProcess> process_;
};

}  // namespace knobwise
