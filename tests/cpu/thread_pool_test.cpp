#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <thread>
#include <vector>

#include "kernels/parallel_for.h"

namespace knobwise {
namespace {

void count(void* const* arguments, long long task) {
  static_cast<std::atomic<int>*>(arguments[0])[task].fetch_add(1);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 100})
    for (const long long tasks : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> counts(1001);
      void* arguments[] = {counts.data()};
      ThreadPool::instance().run(count, arguments, tasks, threads);
      for (long long i = 0; i < 1001; ++i)
        ASSERT_EQ(counts[static_cast<std::size_t>(i)], i < tasks ? 1 : 0)
            << threads << " threads, task " << i;
    }
}

TEST(ThreadPool, ServesManyLaunchesFromSeveralThreads) {
  constexpr int kLaunches = 500, kTasks = 7;
  std::vector<std::thread> callers;
  std::vector<std::atomic<int>> counts(4 * kTasks);
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&counts, caller] {
      void* arguments[] = {counts.data() + caller * kTasks};
      for (int i = 0; i < kLaunches; ++i) ThreadPool::instance().run(count, arguments, kTasks, 2);
    });
  for (std::thread& caller : callers) caller.join();
  for (const auto& value : counts) EXPECT_EQ(value, kLaunches);
}

TEST(ThreadPool, UsesNoMoreThreadsThanAsked) {
  static std::mutex mutex;
  static std::set<std::thread::id> threads;
  threads.clear();
  ThreadPool::instance().run(
      [](void* const*, long long) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      },
      nullptr, 200, 1);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

bool all_ran_once(const std::vector<std::atomic<int>>& counts) {
  return std::ranges::all_of(counts, [](int value) { return value == 1; });
}

// Whether a launch in a forked process, after `prepare`, ran every task once.
template <class Prepare>
bool serves_a_child(Prepare prepare) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // the parent's threads are not there: waiting for them would last
    prepare();
    std::vector<std::atomic<int>> counts(100), more(100);
    void* arguments[] = {counts.data()};
    ThreadPool::instance().run(count, arguments, 100, 2);
    parallel_for(100, 4, [&](std::int64_t i) { ++more[static_cast<std::size_t>(i)]; });
    std::exit(all_ran_once(counts) && all_ran_once(more) ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(ThreadPool, ServesAForkedProcess) {
  std::vector<std::atomic<int>> counts(100);
  void* arguments[] = {counts.data()};
  ThreadPool::instance().run(count, arguments, 100, 2);
  EXPECT_TRUE(serves_a_child([] {}));
  ThreadPool::instance().run(count, arguments, 100, 2);
  for (const auto& value : counts) EXPECT_EQ(value, 2);
}

TEST(ThreadPool, DoesWithoutThreadsWhereTheSystemGivesNone) {
  EXPECT_TRUE(serves_a_child([] {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 46);
    pthread_setattr_default_np(&attributes);
  }));
}

TEST(ThreadPool, LeavesSignalsToTheApplicationsThreads) {
  EXPECT_TRUE(serves_a_child([] {
    ThreadPool::instance();
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &term, nullptr);
    kill(getpid(), SIGTERM);  // waits for a thread that takes it
    usleep(50'000);
  }));
}

TEST(ThreadPool, ServesWhatStillRunsWhenItsThreadsHaveEnded) {
  EXPECT_TRUE(serves_a_child([] { ThreadPool::instance().end_threads(); }));
}

TEST(ThreadPool, LetsATaskEndTheProgram) {
  for (const int threads : {1, 2}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      const auto task = [](void* const*, long long) { std::exit(3); };
      ThreadPool::instance().run(task, nullptr, 100, threads);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << threads << " threads: " << status;
  }
}

TEST(ThreadPool, KnowsTheAllowedProcessors) {
  const std::vector<int> cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
}

}  // namespace
}  // namespace knobwise
