#include "tuner/strategies/differential_evolution.h"

#include <algorithm>

#include "tuner/strategies/continuous_position.h"

namespace knobwise {
namespace {

constexpr std::size_t kPopulation = 15;
constexpr double kCrossover = 0.8;  // chance that a knob comes from the mix

}  // namespace

ScriptedStrategy::Script DifferentialEvolution::search() {
  std::vector<std::uint64_t> members;
  for (std::size_t i = 0; i < kPopulation; ++i) members.push_back(random_index());
  std::vector<double> times = co_await evaluate(members);
  while (true) {
    for (std::size_t target = 0; target < kPopulation; ++target) {
      const std::size_t best = std::min_element(times.begin(), times.end()) - times.begin();
      const ContinuousPosition own = continuous(space(), members[target]);
      const ContinuousPosition leader = continuous(space(), members[best]);
      const ContinuousPosition plus = continuous(space(), members[below(kPopulation)]);
      const ContinuousPosition minus = continuous(space(), members[below(kPopulation)]);
      const double weight = 0.5 + 0.5 * uniform();  // dither, which keeps differences from repeating
      const std::size_t always = below(own.size());
      ContinuousPosition trial = own;
      for (std::size_t knob = 0; knob < own.size(); ++knob) {
        if (knob != always && uniform() >= kCrossover) continue;
        trial[knob] = own[knob] + weight * (leader[knob] - own[knob]) + weight * (plus[knob] - minus[knob]);
      }
      const std::uint64_t challenger = nearest_index(space(), trial);
      const double time = (co_await evaluate(challenger)).front();
      if (time <= times[target]) members[target] = challenger, times[target] = time;
    }
  }
}

}  // namespace knobwise
