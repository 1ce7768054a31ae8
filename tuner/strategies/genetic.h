// A genetic algorithm.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Steady state: two parents, each the better of two drawn from a small population, give a child that takes
/// each knob from either; about one knob mutates. The child replaces the slowest if it is faster.
class Genetic : public ScriptedStrategy {
 public:
  using ScriptedStrategy::ScriptedStrategy;

 private:
  struct Member {
    std::uint64_t index;
    double time;
  };

  Script search() override;
  const Member& tournament(const std::vector<Member>& population);
};

}  // namespace knobwise
