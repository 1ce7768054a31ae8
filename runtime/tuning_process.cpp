#include "runtime/tuning_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

#include "search_spaces/user_error.h"

namespace knobwise::runtime_detail {
namespace {

constexpr off_t kMostErrorBytes = 4096;  // of the end, where the reason stands
constexpr off_t kMostStoredBytes = 1 << 20;

bool runnable(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// What posix_spawn() takes, freed at the end.
struct SpawnSetup {
  SpawnSetup(int errors) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// The session of a process that has not ended, from /proc; nothing for any other.
std::optional<pid_t> session_of(const char* process) {
  std::ifstream file(std::string("/proc/") + process + "/stat");
  std::string stat;
  std::getline(file, stat);
  // The name, in parentheses, may hold anything.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  char state = 0;
  int parent = 0, group = 0, session = 0;
  if (std::sscanf(stat.c_str() + name_end + 1, " %c %d %d %d", &state, &parent, &group, &session) != 4)
    return std::nullopt;
  if (state == 'Z' || state == 'X') return std::nullopt;
  return session;
}

// The number of processes found. They may start others meanwhile.
int kill_members(pid_t session) {
  int found = 0;
  DIR* processes = opendir("/proc");
  if (!processes) return kill(-session, SIGKILL) == 0 ? 1 : 0;
  while (const dirent* entry = readdir(processes)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || session_of(entry->d_name) != session) continue;
    kill(std::atoi(entry->d_name), SIGKILL);
    ++found;
  }
  closedir(processes);
  return found;
}

}  // namespace

std::filesystem::path find_knobwise(const std::filesystem::path& chosen) {
  if (!chosen.empty()) {
    if (runnable(chosen)) return chosen;
    throw UserError(fmt::format("tune_on_miss: {} is no file that can be run", chosen.string()));
  }
  if (const char* named = std::getenv("KNOBWISE_EXECUTABLE"); named && *named) {
    if (runnable(named)) return named;
    throw UserError(
        fmt::format("tune_on_miss: KNOBWISE_EXECUTABLE names {}, no file that can be run", named));
  }
  const char* path = std::getenv("PATH");
  for (std::string_view folders = path ? path : ""; !folders.empty();) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::filesystem::path candidate = std::filesystem::path(folders.substr(0, end)) / "knobwise";
    if (runnable(candidate)) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  throw UserError(
      "tune_on_miss: there is no knobwise executable; name it in tune_on_miss.executable or "
      "KNOBWISE_EXECUTABLE, or put its folder on the PATH");
}

TuningProcess::TuningProcess(const std::vector<std::string>& command, const std::string& setting) {
  errors_ = memfd_create("knobwise-tuning", MFD_CLOEXEC);
  if (errors_ < 0) throw UserError(fmt::format("tune_on_miss: memfd_create: {}", std::strerror(errno)));
  fcntl(errors_, F_SETFL, O_APPEND);  // so that it can be cut while it is written
  std::vector<char*> arguments, environment{const_cast<char*>(setting.c_str())};
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::string_view name = std::string_view(setting).substr(0, setting.find('=') + 1);
  for (char** entry = environ; *entry; ++entry) {
    if (!std::string_view(*entry).starts_with(name)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  const SpawnSetup setup(errors_);
  const int error = posix_spawn(&pid_, arguments[0], &setup.actions, &setup.attributes, arguments.data(),
                                environment.data());
  if (error == 0) return;
  close(errors_);
  throw UserError(fmt::format("tune_on_miss: {} cannot be started: {}", command[0], std::strerror(error)));
}

TuningProcess::~TuningProcess() {
  // The process is only reaped afterwards: until then its id, and so the session's, is no other's.
  while (kill_members(pid_) > 0) {
  }
  waitpid(pid_, nullptr, 0);
  close(errors_);
}

std::optional<std::string> TuningProcess::outcome() const {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    // The application takes its children's exit statuses away (SIGCHLD ignored, or wait() for any child).
    return errno == ECHILD ? std::optional<std::string>("") : std::nullopt;
  }
  if (info.si_pid == 0) {
    cut_errors();
    return std::nullopt;
  }
  if (info.si_code == CLD_EXITED && info.si_status == 0) return "";
  const std::string how = info.si_code == CLD_EXITED ? fmt::format("exit status {}", info.si_status)
                                                     : fmt::format("signal {}", info.si_status);
  std::string reason = last_line();
  // Of its own failures it tells on standard output.
  if (reason.empty() && info.si_code == CLD_EXITED && info.si_status == 1)
    reason = "mostly, no configuration succeeded in the time given and was accurate enough";
  return reason.empty() ? how : fmt::format("{} ({})", reason, how);
}

void TuningProcess::interrupt() const {
  if (!outcome()) kill(pid_, SIGTERM);
}

// What it says lies in memory, of which a program that is none of ours might take all.
void TuningProcess::cut_errors() const {
  struct stat status {};
  if (fstat(errors_, &status) != 0 || status.st_size <= kMostStoredBytes) return;
  [[maybe_unused]] const int failed = ftruncate(errors_, 0);  // the next time, then
}

std::string TuningProcess::last_line() const {
  struct stat status {};
  if (fstat(errors_, &status) != 0) return "";
  std::string text(static_cast<std::size_t>(std::min(status.st_size, kMostErrorBytes)), '\0');
  const ssize_t count =
      pread(errors_, text.data(), text.size(), status.st_size - static_cast<off_t>(text.size()));
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  text.resize(text.find_last_not_of(" \t\r\n") + 1);
  return text.substr(text.find_last_of("\r\n") + 1);
}

}  // namespace knobwise::runtime_detail
