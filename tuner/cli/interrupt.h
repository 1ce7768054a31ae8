// Ctrl-C asks a session to end; a second one ends the program.
#pragma once

#include <sys/types.h>

#include <csignal>

namespace knobwise::cli {

/// While it lives, SIGINT, SIGTERM and SIGHUP set flag(); the second signal has its default effect. One at a
/// time in a process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static const volatile std::sig_atomic_t* flag();
};

/// From now on SIGTERM comes when the parent ends (strictly: its thread that started this process). Throws
/// UserError if `parent` is not the parent, or has ended already.
void end_with(pid_t parent);

}  // namespace knobwise::cli
