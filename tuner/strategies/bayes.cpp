#include "tuner/strategies/bayes.h"

namespace knobwise {
namespace {

constexpr SurrogateEffort kEffort{16384, 120, 1.2};

}  // namespace

BayesStrategy::BayesStrategy(const BoundSpace& space, std::uint64_t seed)
    : SurrogateStrategy(space, kEffort, seed) {}

std::optional<std::uint64_t> BayesStrategy::choose(Surrogate& surrogate) {
  return surrogate.best_candidate(book());
}

}  // namespace knobwise
