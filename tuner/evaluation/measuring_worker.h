// The process that measures on one device, started again whenever it is lost.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tuner/evaluation/worker_process.h"

namespace knobwise {

/// Owns a `measure` worker that holds one problem on one device. Movable; not thread-safe.
class MeasuringWorker {
 public:
  /// Starts nothing yet. `executable` is what the worker runs; `problem` what it is told of the problem (see
  /// run_measure_worker()), besides the device. Waiting ends when `interrupted` is there and not 0.
  MeasuringWorker(std::string executable, std::string device, nlohmann::json problem,
                  const volatile std::sig_atomic_t* interrupted)
      : executable_(std::move(executable)),
        device_(std::move(device)),
        problem_(std::move(problem)),
        interrupted_(interrupted) {}

  /// Starts a process in place of the present one, and lets it open the device while the caller goes on.
  void launch();
  /// Waits until the launched process holds the problem. Throws UserError when the device cannot, when the
  /// user's kernel that gives the reference ends the process or does not end, and when interrupted;
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
  [[noreturn]] void fail_to_open(const std::string& how) const;

  std::string executable_, device_;
  nlohmann::json problem_;
  const volatile std::sig_atomic_t* interrupted_;
  std::optional<WorkerProcess> process_;
};

}  // namespace knobwise
