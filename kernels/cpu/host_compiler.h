// Runs the host's C++ compiler.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace knobwise {

/// What a finished or stopped command left.
struct CommandResult {
  int exit_status = -1;  ///< -1: not started, stopped by a signal, or out of time.
  bool timed_out = false;
  std::string start_error;  ///< Why it could not be started; empty if it was.
  std::string output;       ///< Its standard output and error together.
};

/// Runs `command` (found along PATH, no shell) in a process group of its own, with TMPDIR set to
/// `temporary_directory` if that is not empty, and waits for it. Past `limit`, in which time that this
/// process is stopped does not count, the whole group is killed, and likewise if this thread ends, however it
/// does. Thread-safe.
CommandResult run_command(const std::vector<std::string>& command, const std::string& temporary_directory,
                          std::chrono::milliseconds limit);

/// The words of the environment's KNOBWISE_CXX, else `c++`.
std::vector<std::string> host_compiler_command();

/// The first line of `c++ --version`; empty if there is no compiler. Asked once per command.
std::string host_compiler_version();

}  // namespace knobwise
