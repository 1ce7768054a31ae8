#include "tuner/strategies/particle_swarm.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tuner/strategies/continuous_position.h"

namespace knobwise {
namespace {

constexpr std::size_t kParticles = 20;

struct Particle {
  ContinuousPosition place, best_place;
  double best_time = std::numeric_limits<double>::infinity();
};

}  // namespace

double ParticleSwarm::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

ScriptedStrategy::Script ParticleSwarm::search() {
  std::vector<Particle> swarm(kParticles);
  for (Particle& particle : swarm) particle.place = particle.best_place = continuous(space(), random_index());
  Particle leader = swarm.front();
  while (true) {
    for (Particle& particle : swarm) {
      const std::uint64_t index = nearest_index(space(), particle.place);
      const double time = (co_await evaluate(index)).front();
      if (time < particle.best_time)
        particle.best_time = time, particle.best_place = continuous(space(), index);
      if (particle.best_time < leader.best_time) leader = particle;
    }
    for (Particle& particle : swarm) {
      for (std::size_t knob = 0; knob < particle.place.size(); ++knob) {
        const double own = particle.best_place[knob], other = leader.best_place[knob];
        particle.place[knob] = own;
        if (uniform() < 0.5) particle.place[knob] = (own + other) / 2 + std::abs(own - other) * normal();
      }
    }
  }
}

}  // namespace knobwise
