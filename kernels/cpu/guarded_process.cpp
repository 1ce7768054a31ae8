#include "kernels/cpu/guarded_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace knobwise {
namespace {

// The guard's end of the pipe to its parent: closed when the guard ends.
constexpr int kReport = 3;

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// From here to the end of guard(): between fork and exec, so only what is safe there.

void end_group(int) {
  kill(0, SIGKILL);
}

[[noreturn]] void run(char* const* command, char* const* environment, pid_t guard) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the guard itself be killed
  if (getppid() != guard) _exit(127);
  execvpe(command[0], command, environment);
  const int error = errno;
  (void)!write(kReport, &error, sizeof error);
  _exit(127);
}

[[noreturn]] void guard(char* const* command, char* const* environment, int output, int report,
                        pid_t parent) {
  setpgid(0, 0);
  signal(SIGTERM, end_group);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // it died before the line above
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  dup2(report, kReport);
  fcntl(kReport, F_SETFD, FD_CLOEXEC);
  close_range(kReport + 1, ~0u, 0);  // nobody may wait for the other end of what the parent has open
  const pid_t self = getpid(), child = _Fork();  // without the handlers that fork() runs
  if (child == 0) run(command, environment, self);
  const int status = child < 0 ? 0x7f00 : wait_for(child);
  if (!WIFEXITED(status)) kill(0, SIGKILL);
  _exit(WEXITSTATUS(status));
}

}  // namespace

GuardedProcess::GuardedProcess(const std::vector<std::string>& command,
                               const std::vector<std::string>& environment, int output) {
  const std::vector<char*> words = pointers(command), variables = pointers(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw std::system_error(errno, std::generic_category());
  const pid_t parent = getpid();
  guard_ = fork();
  if (guard_ == 0) guard(words.data(), variables.data(), output, ends[1], parent);
  const int error = errno;
  close(ends[1]);
  descriptor_ = ends[0];
  if (guard_ < 0) {
    close(descriptor_);
    throw std::system_error(error, std::generic_category());
  }
  setpgid(guard_, guard_);
}

GuardedProcess::~GuardedProcess() {
  stop();
  close(descriptor_);
}

int GuardedProcess::stop() {
  if (guard_ < 0) return -1;
  // Not reaped yet, the guard keeps the group's number from being another's.
  kill(-guard_, SIGKILL);
  const int status = wait_for(std::exchange(guard_, -1));
  if (read(descriptor_, &start_error_, sizeof start_error_) != sizeof start_error_) start_error_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace knobwise
