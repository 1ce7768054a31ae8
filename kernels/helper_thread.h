// Threads of the library's own, beside those of the application.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>
#include <system_error>
#include <thread>
#include <utility>

namespace knobwise {

/// For its life the calling thread, and threads that it starts for good, take no signals that the process is
/// sent: those are for the application's threads. Faults and profiling stay.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigfillset(&set);
    for (const int kept : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      sigdelset(&set, kept);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// A thread that takes no signals; not joinable where the system gives none: the caller does its work, then.
template <class Body>
std::thread start_helper(Body body) {
  const SignalsBlocked blocked;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace knobwise
