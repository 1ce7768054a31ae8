#include "tuner/strategies/particle_swarm.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 20;  // random configurations, the fastest of which are where particles begin
constexpr std::size_t kParticles = 8;

// The best place of a particle so far; where it is now plays no part.
struct Particle {
  std::uint64_t best;
  double time;
};

}  // namespace

ScriptedStrategy::Script ParticleSwarm::search() {
  const std::vector<std::uint64_t> first = random_indices(kDraws);
  const std::vector<double> times = co_await evaluate(first);
  std::vector<Particle> swarm;
  for (std::size_t i = 0; i < first.size(); ++i) swarm.push_back({first[i], times[i]});
  const auto faster = [](const Particle& a, const Particle& b) { return a.time < b.time; };
  std::stable_sort(swarm.begin(), swarm.end(), faster);
  swarm.resize(kParticles);
  while (true) {
    for (Particle& particle : swarm) {
      const std::uint64_t leader = std::min_element(swarm.begin(), swarm.end(), faster)->best;
      const std::uint64_t place = mix(particle.best, leader);
      const double time = (co_await evaluate(place)).front();
      if (time < particle.time) particle = {place, time};
    }
  }
}

}  // namespace knobwise
