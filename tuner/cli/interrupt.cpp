#include "tuner/cli/interrupt.h"

#include <signal.h>

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

}  // namespace knobwise::cli
