#include "tuner/strategies/particle_swarm.h"

#include <algorithm>
#include <limits>

#include "tuner/strategies/continuous_position.h"

namespace knobwise {
namespace {

constexpr std::size_t kParticles = 20;
constexpr double kInertia = 0.7298;
constexpr double kAttraction = 1.49618;

struct Particle {
  ContinuousPosition place, velocity, best_place;
  double best_time = std::numeric_limits<double>::infinity();
};

}  // namespace

ScriptedStrategy::Script ParticleSwarm::search() {
  std::vector<Particle> swarm(kParticles);
  for (Particle& particle : swarm) {
    particle.place = particle.best_place = continuous(space(), random_index());
    particle.velocity.assign(particle.place.size(), 0.0);
  }
  Particle leader = swarm.front();
  while (true) {
    for (Particle& particle : swarm) {
      const std::uint64_t index = nearest_index(space(), particle.place);
      const double time = (co_await evaluate(index)).front();
      if (time < particle.best_time) particle.best_time = time, particle.best_place = particle.place;
      if (time < leader.best_time) leader = particle;
    }
    for (Particle& particle : swarm) {
      for (std::size_t knob = 0; knob < particle.place.size(); ++knob) {
        const double last = static_cast<double>(space().knobs()[knob].values.size() - 1);
        const double place = particle.place[knob];
        double& velocity = particle.velocity[knob];
        velocity = kInertia * velocity + kAttraction * uniform() * (particle.best_place[knob] - place) +
                   kAttraction * uniform() * (leader.best_place[knob] - place);
        particle.place[knob] = std::clamp(place + velocity, 0.0, last);
      }
    }
  }
}

}  // namespace knobwise
