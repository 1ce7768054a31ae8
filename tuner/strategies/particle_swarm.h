// Particle swarm optimisation.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Particles fly among the positions within the lists of values, drawn to the best place of their own and of
/// the swarm (constriction coefficients of Clerc and Kennedy, 2002); each place counts as the nearest valid
/// configuration.
class ParticleSwarm : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
