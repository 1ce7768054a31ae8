#include "tuner/cli/interrupt.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "search_spaces/user_error.h"

namespace knobwise::cli {
namespace {

volatile std::sig_atomic_t interrupted = 0;
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

void set_all(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (int number : kSignals) sigaction(number, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted = 0;
  // No SA_RESTART: waiting for workers must end. SA_RESETHAND: the next signal kills.
  set_all([](int) { interrupted = 1; }, SA_RESETHAND);
}

InterruptGuard::~InterruptGuard() {
  set_all(SIG_DFL, 0);
}

const volatile std::sig_atomic_t* InterruptGuard::flag() {
  return &interrupted;
}

void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) throw UserError(fmt::format("--end-with: process {} is not the parent", parent));
}

}  // namespace knobwise::cli
