// A worker: this executable again, in its own process group, talked to over a socket.
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tuner/evaluation/channel.h"

namespace knobwise {

/// How a worker ended.
struct WorkerEnd {
  std::string how;      ///< "signal 11 (Segmentation fault)", "exit status 3".
  bool killed = false;  ///< By somebody's SIGKILL or SIGTERM: no fault of what it was at.
};

/// Owns one worker process; destruction kills it with everything that it started. Movable; not thread-safe.
///
/// The worker finds the socket as its standard input. It dies with the process that started it, and a Ctrl-C
/// at the terminal does not reach it.
class WorkerProcess {
 public:
  /// Starts `executable worker <role>`. Throws std::runtime_error when the system refuses.
  static WorkerProcess start(const std::string& executable, const std::string& role);

  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&& other) noexcept;
  ~WorkerProcess();

  int descriptor() const { return descriptor_; }
  pid_t pid() const { return pid_; }
  bool send(const nlohmann::json& message) { return send_message(descriptor_, message); }
  MessageReader& reader() { return reader_; }

  /// The next message; none when `seconds` have passed, or when the worker has closed its end.
  std::optional<nlohmann::json> reply_within(double seconds);
  /// Whether reply_within() found the other end closed.
  bool closed() const { return closed_; }

  /// Kills the worker and reaps it.
  void stop();
  /// Reaps a worker whose socket has closed. One that lives on for a second is killed.
  WorkerEnd reap();

  /// Stops the worker and the commands that it runs until resume(), so that they leave the processors alone.
  /// The guards of the commands (kernels/cpu/guarded_process.h) stay awake. Needs /proc.
  void pause();
  void resume();

 private:
  WorkerProcess(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor), reader_(descriptor) {}

  pid_t pid_ = -1;
  int descriptor_ = -1;
  MessageReader reader_;
  bool closed_ = false;
  std::vector<pid_t> paused_;
};

/// To be called first in a worker: arranges to die with `parent`, its process id, and to ignore the
/// terminal's Ctrl-C.
void become_worker(pid_t parent);

}  // namespace knobwise
