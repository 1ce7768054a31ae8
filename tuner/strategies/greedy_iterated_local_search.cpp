#include "tuner/strategies/greedy_iterated_local_search.h"

#include <limits>

namespace knobwise {
namespace {

constexpr double kFailed = std::numeric_limits<double>::infinity();
constexpr int kDraws = 20;     // random configurations, the best of which is the start
constexpr int kKicks = 2;      // knobs changed at random between climbs
constexpr int kPatience = 10;  // climbs without success before a fresh start

}  // namespace

ScriptedStrategy::Script GreedyIteratedLocalSearch::search() {
  while (true) {
    std::uint64_t best = 0;
    double best_time = kFailed;
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::uint64_t index = random_index();
      const double time = (co_await evaluate(index)).front();
      if (draw == 0 || time < best_time) best = index, best_time = time;
    }
    std::uint64_t current = best;
    double current_time = best_time;
    for (int failed = 0; failed < kPatience; ++failed) {
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
      if (current_time < best_time) best = current, best_time = current_time, failed = 0;
      current = best;
      for (int kick = 0; kick < kKicks; ++kick) {
        const std::vector<std::uint64_t> neighbours = space().neighbours(current, Neighbourhood::hamming);
        if (!neighbours.empty()) current = neighbours[below(neighbours.size())];
      }
      current_time = (co_await evaluate(current)).front();
    }
  }
}

}  // namespace knobwise
