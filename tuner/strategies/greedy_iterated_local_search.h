// Greedy iterated local search.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Climbs to a local optimum, changes a few knobs of it at random, climbs again, and goes on from the better
/// of the two; starts afresh when that stops helping.
class GreedyIteratedLocalSearch : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
