// Bayesian optimisation.
#pragma once

#include "tuner/strategies/surrogate_strategy.h"

namespace knobwise {

/// Always the configuration with the largest expected improvement times chance of success.
class BayesStrategy : public SurrogateStrategy {
 public:
  BayesStrategy(const BoundSpace& space, std::uint64_t seed);

 private:
  std::optional<std::uint64_t> choose(Surrogate& surrogate) override;
};

}  // namespace knobwise
