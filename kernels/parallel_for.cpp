#include "kernels/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/helper_thread.h"

namespace knobwise {

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> helpers;
  for (std::int64_t t = 1; t < std::min<std::int64_t>(threads, count); ++t) {
    helpers.push_back(start_helper(work));
    if (helpers.back().joinable()) continue;
    helpers.pop_back();
    break;
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace knobwise
