#include "tuner/evaluation/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace knobwise {
namespace {

std::vector<pid_t> children(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  return {std::istream_iterator<pid_t>(file), {}};
}

}  // namespace

WorkerProcess WorkerProcess::start(const std::string& executable, const std::string& role) {
  std::array<int, 2> ends;
  // Close-on-exec: other workers must not inherit this end, or its closing would go unnoticed.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error(fmt::format("cannot start a worker: {}", std::strerror(errno)));
  }
  const std::string parent = std::to_string(getpid());
  const pid_t pid = fork();
  if (pid < 0) {
    const int error = errno;
    close(ends[0]);
    close(ends[1]);
    throw std::runtime_error(fmt::format("cannot start a worker: {}", std::strerror(error)));
  }
  if (pid == 0) {
    // Only calls that are safe between fork and exec.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], STDIN_FILENO);
    execl(executable.c_str(), executable.c_str(), "worker", role.c_str(), parent.c_str(),
          static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  setpgid(pid, pid);
  return WorkerProcess(pid, ends[0]);
}

WorkerProcess::WorkerProcess(WorkerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      reader_(std::move(other.reader_)),
      closed_(other.closed_),
      paused_(std::move(other.paused_)) {}

WorkerProcess& WorkerProcess::operator=(WorkerProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(reader_, other.reader_);
  std::swap(closed_, other.closed_);
  std::swap(paused_, other.paused_);
  return *this;
}

WorkerProcess::~WorkerProcess() {
  stop();
}

std::optional<nlohmann::json> WorkerProcess::reply_within(double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (true) {
    if (auto message = reader_.next()) return message;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd waiting{descriptor_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    if (!reader_.fill()) {
      closed_ = true;
      return std::nullopt;
    }
  }
}

void WorkerProcess::stop() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(descriptor_);
  pid_ = -1;
  descriptor_ = -1;
}

WorkerEnd WorkerProcess::reap() {
  using namespace std::chrono_literals;
  int status = 0;
  pid_t reaped = 0;
  for (int tries = 0; tries < 100 && reaped == 0; ++tries) {
    reaped = waitpid(pid_, &status, WNOHANG);
    if (reaped == 0) std::this_thread::sleep_for(10ms);
  }
  kill(-pid_, SIGKILL);  // also what the worker had started itself
  if (reaped == 0) reaped = waitpid(pid_, &status, 0);
  close(descriptor_);
  pid_ = -1;
  descriptor_ = -1;
  if (reaped < 0) return {"unknown"};
  if (!WIFSIGNALED(status)) return {fmt::format("exit status {}", WEXITSTATUS(status))};
  const int number = WTERMSIG(status);
  return {fmt::format("signal {} ({})", number, strsignal(number)), number == SIGKILL || number == SIGTERM};
}

void WorkerProcess::pause() {
  using namespace std::chrono_literals;
  const auto stop = [this](pid_t pid) {
    if (kill(pid, SIGSTOP) == 0) paused_.push_back(pid);
  };
  stop(pid_);  // it starts no further command
  std::vector<pid_t> open;
  for (const pid_t guard : children(pid_)) {
    // A guard that has just begun starts its command at once.
    for (int tries = 0; tries < 20 && open.empty(); ++tries) {
      open = children(guard);
      if (open.empty()) std::this_thread::sleep_for(500us);
    }
  }
  while (!open.empty()) {
    const pid_t pid = open.back();
    open.pop_back();
    stop(pid);
    for (const pid_t child : children(pid)) open.push_back(child);
  }
}

void WorkerProcess::resume() {
  for (const pid_t pid : std::exchange(paused_, {})) kill(pid, SIGCONT);
}

void become_worker(pid_t parent) {
  signal(SIGINT, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it died before the line above
}

}  // namespace knobwise
