// A genetic algorithm.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Steady state: two parents, each the better of two drawn from a small population, give a child that takes
/// each knob from either, or one that differs from its mother in one knob if it would be like her. The child
/// replaces the slowest if it is faster. A population that no longer improves gives way to a fresh one.
class Genetic : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  Script search() override;
  std::uint64_t tournament(const std::vector<Observation>& population);
};

}  // namespace knobwise
