// Threads that run the tasks of a launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace knobwise {

/// The processors this process may run on, ascending.
std::vector<int> allowed_cpus();

/// Threads that stay, one pinned to each allowed processor, and sleep between launches.
///
/// Thread-safe: launches from several threads run one after another.
class ThreadPool {
 public:
  /// The pool of the process, started at first use; a process that was forked from this one gets its own.
  static ThreadPool& instance();

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls function(arguments, task) for every task in [0, tasks), in ascending order as threads come free,
  /// on `threads` threads of which the caller is one; at most one a processor. Returns when all calls have.
  void run(void (*function)(void* const*, long long), void* const* arguments, long long tasks, int threads);

  /// Waits for the launch under way; later ones run on their callers alone.
  void end_threads();

 private:
  struct Worker {
    int cpu = 0;
    std::atomic<std::uint32_t> wanted{0};  ///< Counts the launches this worker takes part in.
    std::thread thread;
  };
  struct Launch {
    void (*function)(void* const*, long long) = nullptr;
    void* const* arguments = nullptr;
    long long tasks = 0;
    std::atomic<long long> next{0};
    std::atomic<int> running{0};
  };

  ThreadPool();
  static ThreadPool& start();
  void serve(Worker& worker);
  void take_tasks();

  std::mutex mutex_;
  std::atomic<bool> stopping_{false};
  Launch launch_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace knobwise
