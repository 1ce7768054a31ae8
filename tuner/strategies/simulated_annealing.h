// Simulated annealing.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// A walk over neighbours (one knob differs), untried ones first, that takes every improvement, and a setback
/// by a factor f with probability f^(-1/T). The temperature T falls geometrically; a walk that is frozen
/// begins again, warm, at the best configuration. The ratio of times is what counts, so that no scale has to
/// be known.
class SimulatedAnnealing : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
