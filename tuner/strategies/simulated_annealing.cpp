#include "tuner/strategies/simulated_annealing.h"

#include <cmath>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 10;  // random configurations, the best of which is the start
constexpr double kHot = 0.1;        // a setback of e^0.1 = 10% is taken with probability 1/e
constexpr double kCold = 0.01;      // one of 1%
constexpr double kCooling = 0.97;   // per step

}  // namespace

ScriptedStrategy::Script SimulatedAnnealing::search() {
  const std::vector<std::uint64_t> draws = random_indices(kDraws);
  const std::vector<double> times = co_await evaluate(draws);
  Observation current = fastest(draws, times, 1).front();
  while (true) {
    for (double temperature = kHot; temperature > kCold; temperature *= kCooling) {
      const std::uint64_t next = random_neighbour(current.index);
      const double time = (co_await evaluate(next)).front();
      const double chance = std::pow(current.time_us / time, 1 / temperature);
      if (time <= current.time_us || uniform() < chance) current = {next, time};
    }
    if (const auto best = book().best()) current = *best;
  }
}

}  // namespace knobwise
