#include "kernels/cpu/host_compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <system_error>

#include "kernels/cpu/guarded_process.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

/// The environment of this process, with messages in English and TMPDIR replaced if a directory is given.
std::vector<std::string> environment(const std::string& temporary_directory) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced =
        text.starts_with("LC_ALL=") || (text.starts_with("TMPDIR=") && !temporary_directory.empty());
    if (!replaced) entries.emplace_back(text);
  }
  entries.push_back("LC_ALL=C");
  if (!temporary_directory.empty()) entries.push_back("TMPDIR=" + temporary_directory);
  return entries;
}

/// Appends what can be read now, waiting for `wait` at most; false at the end.
bool read_some(int descriptor, std::chrono::milliseconds wait, std::string& output) {
  char buffer[4096];
  pollfd poller{descriptor, POLLIN, 0};
  if (poll(&poller, 1, static_cast<int>(wait.count())) <= 0) return false;
  const ssize_t count = read(descriptor, buffer, sizeof buffer);
  if (count > 0) output.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

/// Collects the output until the process has ended; false when it takes longer than `limit`. Time in which
/// this process was stopped does not count.
bool read_until_end(const GuardedProcess& process, int descriptor, std::chrono::milliseconds limit,
                    std::string& output) {
  constexpr Clock::duration kStep = std::chrono::seconds(1);
  Clock::duration left = limit;
  bool open = true;
  while (left > Clock::duration::zero()) {
    const Clock::time_point begin = Clock::now();
    pollfd waiting[] = {{process.descriptor(), POLLIN, 0}, {open ? descriptor : -1, POLLIN, 0}};
    const Clock::duration step = std::min(left, kStep);
    const int ready =
        poll(waiting, 2, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(step).count()));
    if (ready > 0 && waiting[1].revents)
      open = read_some(descriptor, std::chrono::milliseconds(0), output);
    else if (ready > 0 && waiting[0].revents)
      return true;
    left -= std::min(step, Clock::now() - begin);
  }
  return false;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& command, const std::string& temporary_directory,
                          std::chrono::milliseconds limit) {
  CommandResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.start_error = std::strerror(errno);
    return result;
  }
  try {
    GuardedProcess process(command, environment(temporary_directory), ends[1]);
    close(ends[1]);
    result.timed_out = !read_until_end(process, ends[0], limit, result.output);
    const int status = process.stop();
    while (read_some(ends[0], std::chrono::milliseconds(0), result.output)) {
    }
    if (process.start_error() != 0) {
      result.start_error = std::strerror(process.start_error());
    } else if (!result.timed_out) {
      result.exit_status = status;
    }
  } catch (const std::system_error& error) {
    close(ends[1]);
    result.start_error = error.code().message();
  }
  close(ends[0]);
  return result;
}

std::vector<std::string> host_compiler_command() {
  const char* chosen = std::getenv("KNOBWISE_CXX");
  std::istringstream words(chosen != nullptr ? chosen : "");
  std::vector<std::string> command;
  for (std::string word; words >> word;) command.push_back(word);
  if (command.empty()) command.push_back("c++");
  return command;
}

std::string host_compiler_version() {
  static std::mutex mutex;
  static auto& known = never_destroyed(std::map<std::vector<std::string>, std::string>());
  std::vector<std::string> command = host_compiler_command();
  const std::lock_guard lock(mutex);
  const auto [entry, inserted] = known.try_emplace(command);
  if (inserted) {
    command.push_back("--version");
    const CommandResult result = run_command(command, "", std::chrono::seconds(20));
    if (result.exit_status == 0) entry->second = result.output.substr(0, result.output.find('\n'));
  }
  return entry->second;
}

}  // namespace knobwise
