#include "tuner/strategies/exhaustive.h"

namespace knobwise {

std::vector<std::uint64_t> ExhaustiveStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  for (; next_ < size_ && proposals.size() < count; ++next_) {
    if (known_.erase(next_) == 0) proposals.push_back(next_);
  }
  return proposals;
}

void ExhaustiveStrategy::tell(const Observation& observation) {
  if (observation.index >= next_) known_.insert(observation.index);
}

}  // namespace knobwise
