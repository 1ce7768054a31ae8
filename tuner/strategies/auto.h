// The default strategy.
#pragma once

#include "tuner/strategies/surrogate_strategy.h"

namespace knobwise {

/// Bayesian optimisation at little effort, in turns with a local search that the model guides: every few
/// trials the most promising neighbour (one knob differs) of the fastest configuration that has open
/// neighbours. The model finds the good regions; the local search finds what is special in them and too sharp
/// for a model.
class AutoStrategy : public SurrogateStrategy {
 public:
  AutoStrategy(const BoundSpace& space, std::uint64_t seed);

 private:
  std::optional<std::uint64_t> choose(Surrogate& surrogate) override;
  std::optional<std::uint64_t> local(Surrogate& surrogate) const;

  std::size_t turn_ = 0;
};

}  // namespace knobwise
