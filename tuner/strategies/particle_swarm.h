// Particle swarm optimisation.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// A geometric swarm (A. Moraglio, C. Di Chio, R. Poli, Geometric Particle Swarm Optimisation, 2007), which
/// needs no order of values and no velocity: each particle moves to where every knob is that of its own best
/// place or that of the swarm's, with equal chances, and about one knob is changed at random.
class ParticleSwarm : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
