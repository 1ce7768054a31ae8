// Differential evolution.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Every member of a population is challenged by a mix of itself, the best member and the difference of two
/// others, in units of positions within the lists of values, in which about one knob mutates; the better of
/// the two stays.
class DifferentialEvolution : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
  Positions trial(const Positions& own, const Positions& leader, const Positions& plus,
                  const Positions& minus);
};

}  // namespace knobwise
