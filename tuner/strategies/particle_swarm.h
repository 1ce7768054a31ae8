// Particle swarm optimisation.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// The bare-bones swarm of J. Kennedy (2003), which has no coefficients: each knob of a particle takes the
/// place that was best for the particle, or one drawn from a normal distribution between that and the swarm's
/// best place, as wide as the two are apart; places are positions within the lists of values and count as the
/// nearest valid configuration.
class ParticleSwarm : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
  double normal();
};

}  // namespace knobwise
