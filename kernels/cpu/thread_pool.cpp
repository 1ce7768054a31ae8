#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "kernels/helper_thread.h"

namespace knobwise {
namespace {

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);  // a processor gone offline meanwhile: the thread runs where it may
}

/// Whether the thread is within a task: one that ends the program there waits for no launch, least of all its
/// own.
thread_local bool in_task = false;

// The pool of this process, once it is wanted. Its threads end with the program, it does not: what still runs
// then, other threads and destructors of static objects, does it alone.
struct Current {
  ~Current() {
    if (ThreadPool* const last = pool; last && !in_task) last->end_threads();
  }

  std::atomic<ThreadPool*> pool = nullptr;
};
Current current;

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

ThreadPool& ThreadPool::instance() {
  ThreadPool* const pool = current.pool.load(std::memory_order_acquire);
  return pool ? *pool : start();
}

ThreadPool& ThreadPool::start() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (ThreadPool* const pool = current.pool) return *pool;
  // A fork copies no threads: the child leaves its copy of the pool as it lies and starts its own.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current.pool = nullptr; });
  static_cast<void>(registered);
  current.pool = new ThreadPool;
  return *current.pool;
}

ThreadPool::ThreadPool() {
  for (const int cpu : allowed_cpus()) {
    auto worker = std::make_unique<Worker>();
    worker->cpu = cpu;
    worker->thread = start_helper([this, worker = worker.get()] { serve(*worker); });
    if (!worker->thread.joinable()) return;
    workers_.push_back(std::move(worker));
  }
}

void ThreadPool::end_threads() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (const auto& worker : workers_) {
    worker->wanted.fetch_add(1);
    worker->wanted.notify_one();
  }
  for (const auto& worker : workers_) worker->thread.join();
  workers_.clear();
}

void ThreadPool::serve(Worker& worker) {
  pin(worker.cpu);
  for (std::uint32_t served = 0;; ++served) {
    worker.wanted.wait(served);
    if (stopping_) return;
    take_tasks();
    if (launch_.running.fetch_sub(1) == 1) launch_.running.notify_one();
  }
}

void ThreadPool::take_tasks() {
  in_task = true;
  for (long long task; (task = launch_.next.fetch_add(1, std::memory_order_relaxed)) < launch_.tasks;)
    launch_.function(launch_.arguments, task);
  in_task = false;
}

void ThreadPool::run(void (*function)(void* const*, long long), void* const* arguments, long long tasks,
                     int threads) {
  const std::lock_guard lock(mutex_);
  const int helpers =
      static_cast<int>(std::min<long long>({threads, static_cast<long long>(workers_.size()), tasks})) - 1;
  launch_.function = function;
  launch_.arguments = arguments;
  launch_.tasks = tasks;
  launch_.next = 0;
  launch_.running = std::max(helpers, 0);
  const int here = sched_getcpu();  // the caller computes there: the worker of that processor sleeps on
  int asleep = helpers;
  for (const auto& worker : workers_) {
    if (asleep <= 0) break;
    if (worker->cpu == here) continue;
    worker->wanted.fetch_add(1);
    worker->wanted.notify_one();
    --asleep;
  }
  take_tasks();
  for (int running; (running = launch_.running.load()) > 0;) launch_.running.wait(running);
}

}  // namespace knobwise
