// A genetic algorithm.
#pragma once

#include "tuner/strategies/scripted_strategy.h"

namespace knobwise {

/// Steady state: two parents, each the better of two drawn from the population, give a child that takes each
/// knob from either; some knobs mutate; the child replaces the worst if it is better. A child that is not
/// valid becomes the nearest valid configuration, one that was tried before mutates on.
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
  std::uint64_t child_of(std::uint64_t mother, std::uint64_t father);
};

}  // namespace knobwise
