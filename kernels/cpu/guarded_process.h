// A command that does not outlive whoever started it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace knobwise {

/// Runs one command under a guard: a process that leads a group of its own, starts the command in it, waits,
/// and kills the whole group, with all that the command has started, as soon as the thread that made this
/// object is gone, even by SIGKILL. Not thread-safe; several may be alive at once.
class GuardedProcess {
 public:
  /// Starts `command`, found along PATH, with the environment `environment` ("NAME=value" each), nothing to
  /// read, and `output` as its standard output and error. Throws std::system_error if the system has no
  /// process or descriptor left; a command that cannot be run shows in start_error().
  GuardedProcess(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                 int output);
  /// Kills what still runs.
  ~GuardedProcess();
  GuardedProcess(const GuardedProcess&) = delete;
  GuardedProcess& operator=(const GuardedProcess&) = delete;

  /// Readable, for poll(), once the command has ended or could not be run.
  int descriptor() const { return descriptor_; }

  /// Ends the whole group and waits for the command. Its exit status; -1 if it had to be killed or died of a
  /// signal.
  int stop();
  /// After stop(): why the command could not be run, as errno has it; 0 if it was.
  int start_error() const { return start_error_; }

 private:
  pid_t guard_ = -1;
  int descriptor_ = -1;
  int start_error_ = 0;
};

}  // namespace knobwise
