#include "tuner/strategies/random.h"

namespace knobwise {

// One step of a Fisher-Yates shuffle: cost and memory follow the draws, not the size of the space.
std::uint64_t RandomStrategy::draw() {
  auto at = [this](std::uint64_t position) {
    auto found = moved_.find(position);
    return found == moved_.end() ? position : found->second;
  };
  // Reduced by a modulus rather than std::uniform_int_distribution, whose results differ between libraries;
  // the bias is below size / 2^64.
  const std::uint64_t position = drawn_ + random_() % (size_ - drawn_);
  const std::uint64_t drawn = at(position);
  moved_[position] = at(drawn_);
  moved_.erase(drawn_);
  ++drawn_;
  return drawn;
}

std::vector<std::uint64_t> RandomStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  while (drawn_ < size_ && proposals.size() < count) {
    const std::uint64_t index = draw();
    if (!known_.contains(index)) proposals.push_back(index);
  }
  return proposals;
}

}  // namespace knobwise
