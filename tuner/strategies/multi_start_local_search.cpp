#include "tuner/strategies/multi_start_local_search.h"

#include <limits>

namespace knobwise {
namespace {

// Random configurations that compete to be a start: a climb from the best of n begins where random search is
// after n trials.
constexpr int kDraws = 20;

}  // namespace

ScriptedStrategy::Script MultiStartLocalSearch::search() {
  while (true) {
    std::uint64_t current = 0;
    double current_time = std::numeric_limits<double>::infinity();
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::uint64_t index = random_index();
      const double time = (co_await evaluate(index)).front();
      if (draw == 0 || time < current_time) current = index, current_time = time;
    }
    bool improved = true;
    while (improved) {
      improved = false;
      const std::vector<std::uint64_t> neighbours = shuffled_neighbours(current);
      for (std::uint64_t neighbour : neighbours) {
        const double time = (co_await evaluate(neighbour)).front();
        if (time >= current_time) continue;
        current = neighbour, current_time = time;
        improved = true;
        break;
      }
    }
  }
}

}  // namespace knobwise
