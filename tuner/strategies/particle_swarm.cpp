#include "tuner/strategies/particle_swarm.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 20;  // random configurations, the fastest of which are where particles begin
constexpr std::size_t kParticles = 8;

}  // namespace

ScriptedStrategy::Script ParticleSwarm::search() {
  const std::vector<std::uint64_t> draws = random_indices(kDraws);
  const std::vector<double> times = co_await evaluate(draws);
  // Of each particle its best place; where it is now plays no part.
  std::vector<Observation> swarm = fastest(draws, times, kParticles);
  while (true) {
    for (Observation& particle : swarm) {
      const std::uint64_t leader = std::min_element(swarm.begin(), swarm.end(), faster)->index;
      const std::uint64_t place = mix(particle.index, leader);
      const double time = (co_await evaluate(place)).front();
      if (time < particle.time_us) particle = {place, time};
    }
  }
}

}  // namespace knobwise
