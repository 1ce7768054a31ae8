#include "tuner/strategies/differential_evolution.h"

#include <algorithm>
#include <cmath>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 20;  // random configurations, the fastest of which are the first population
constexpr std::size_t kPopulation = 10;
constexpr double kCrossover = 0.8;  // chance that a knob comes from the mix

}  // namespace

ScriptedStrategy::Script DifferentialEvolution::search() {
  const std::vector<std::uint64_t> draws = random_indices(kDraws);
  const std::vector<double> times = co_await evaluate(draws);
  std::vector<Observation> population = fastest(draws, times, kPopulation);
  while (true) {
    for (Observation& target : population) {
      const Positions own = space().positions(target.index);
      const Positions leader =
          space().positions(std::min_element(population.begin(), population.end(), faster)->index);
      const Positions plus = space().positions(population[below(kPopulation)].index);
      const Positions minus = space().positions(population[below(kPopulation)].index);
      const std::uint64_t challenger = repaired(trial(own, leader, plus, minus));
      const double time = (co_await evaluate(challenger)).front();
      if (time <= target.time_us) target = {challenger, time};
    }
  }
}

Positions DifferentialEvolution::trial(const Positions& own, const Positions& leader, const Positions& plus,
                                       const Positions& minus) {
  const double weight = 0.5 + 0.5 * uniform();  // dither, which keeps differences from repeating
  const std::size_t always = below(own.size());
  Positions result = own;
  for (std::size_t knob = 0; knob < own.size(); ++knob) {
    if (knob != always && uniform() >= kCrossover) continue;
    const double last = static_cast<double>(space().knobs()[knob].values.size() - 1);
    const double to_leader = static_cast<double>(leader[knob]) - own[knob];
    const double difference = static_cast<double>(plus[knob]) - minus[knob];
    const double at = std::clamp(own[knob] + weight * (to_leader + difference), 0.0, last);
    result[knob] = static_cast<std::uint32_t>(std::lround(at));
  }
  mutate(result);
  return result;
}

}  // namespace knobwise
