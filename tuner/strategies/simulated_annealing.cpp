#include "tuner/strategies/simulated_annealing.h"

#include <cmath>
#include <limits>

namespace knobwise {
namespace {

constexpr int kDraws = 10;         // random configurations, the best of which is the start
constexpr double kHot = 0.5;       // a setback of e^0.5 = 65% is taken with probability 1/e
constexpr double kCold = 0.01;     // one of 1%
constexpr double kCooling = 0.95;  // per step

}  // namespace

ScriptedStrategy::Script SimulatedAnnealing::search() {
  std::uint64_t current = 0;
  double current_time = std::numeric_limits<double>::infinity();
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::uint64_t index = random_index();
    const double time = (co_await evaluate(index)).front();
    if (draw == 0 || time < current_time) current = index, current_time = time;
  }
  while (true) {
    for (double temperature = kHot; temperature > kCold; temperature *= kCooling) {
      const std::vector<std::uint64_t> neighbours = space().neighbours(current, Neighbourhood::hamming);
      const std::uint64_t next = neighbours.empty() ? random_index() : neighbours[below(neighbours.size())];
      const double time = (co_await evaluate(next)).front();
      const double chance = std::pow(current_time / time, 1 / temperature);
      if (time <= current_time || uniform() < chance) current = next, current_time = time;
    }
    if (const auto best = book().best()) current = best->index, current_time = best->time_us;
  }
}

}  // namespace knobwise
