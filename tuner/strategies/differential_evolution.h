// Differential evolution.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Every member of a population is challenged by a mix of itself, the best member and the difference of two
/// others, in units of positions within the lists of values, rounded to the nearest valid configuration; the
/// better of the two stays.
class DifferentialEvolution : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
};

}  // namespace knobwise
