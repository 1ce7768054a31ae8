// Hill climbing from many starts.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Each climb starts at the best of a few random configurations and moves to the first better neighbour
/// (one knob differs) until there is none.
class MultiStartLocalSearch : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
