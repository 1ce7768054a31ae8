#include "kernels/cpu/host_compiler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

/// The environment of this process with TMPDIR replaced.
class Environment {
 public:
  explicit Environment(const std::string& temporary_directory) {
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (temporary_directory.empty() || std::strncmp(*entry, "TMPDIR=", 7) != 0)
        entries_.emplace_back(*entry);
    if (!temporary_directory.empty()) entries_.push_back("TMPDIR=" + temporary_directory);
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

/// Reads until the other end closes; false when the deadline comes first.
bool read_all(int descriptor, Clock::time_point deadline, std::string& output) {
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd poller{descriptor, POLLIN, 0};
    if (poll(&poller, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output.append(buffer, static_cast<std::size_t>(count));
  }
}

int start(const std::vector<std::string>& command, const std::string& temporary_directory, int output,
          pid_t* child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Environment environment(temporary_directory);
  const int error =
      posix_spawnp(child, arguments[0], &actions, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
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
  pid_t child = -1;
  const int error = start(command, temporary_directory, ends[1], &child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    result.start_error = std::strerror(error);
    return result;
  }
  result.timed_out = !read_all(ends[0], Clock::now() + limit, result.output);
  close(ends[0]);
  if (result.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!result.timed_out && WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
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
  static std::map<std::vector<std::string>, std::string> known;
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

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "knobwise-XXXXXX").string();
  if (error || mkdtemp(pattern.data()) == nullptr)
    throw UserError(fmt::format("no temporary directory can be made ({}); set TMPDIR to a writable folder",
                                error ? error.message() : std::strerror(errno)));
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace knobwise
