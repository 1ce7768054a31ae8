// Every configuration, in the order of the space.
#pragma once

#include <unordered_set>

#include "tuner/strategies/strategy.h"

namespace knobwise {

class ExhaustiveStrategy : public Strategy {
 public:
  explicit ExhaustiveStrategy(const BoundSpace& space) : size_(space.size()) {}

  std::vector<std::uint64_t> ask(std::size_t count) override;
  void tell(const Observation& observation) override;

 private:
  std::uint64_t size_;
  std::uint64_t next_ = 0;
  std::unordered_set<std::uint64_t> known_;  // told ahead of next_
};

}  // namespace knobwise
