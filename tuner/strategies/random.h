// Uniform random sampling without replacement: the yardstick of every other strategy.
#pragma once

#include <random>
#include <unordered_map>
#include <unordered_set>

#include "tuner/strategies/strategy.h"

namespace knobwise {

class RandomStrategy : public Strategy {
 public:
  RandomStrategy(const BoundSpace& space, std::uint64_t seed) : size_(space.size()), random_(seed) {}

  std::vector<std::uint64_t> ask(std::size_t count) override;
  void tell(const Observation& observation) override { known_.insert(observation.index); }

 private:
  std::uint64_t draw();

  std::uint64_t size_;
  std::uint64_t drawn_ = 0;
  std::mt19937_64 random_;
  std::unordered_map<std::uint64_t, std::uint64_t>
      moved_;  // a Fisher-Yates shuffle of 0..size-1, held sparsely
  std::unordered_set<std::uint64_t> known_;
};

}  // namespace knobwise
