#include "tuner/strategies/trial_book.h"

#include <algorithm>

namespace knobwise {

std::optional<double> TrialBook::time(std::uint64_t index) const {
  const auto found = entries_.find(index);
  return found == entries_.end() ? std::nullopt : found->second;
}

void TrialBook::propose(std::uint64_t index) {
  entries_.try_emplace(index);
  random_.tell({index});
}

bool TrialBook::record(const Observation& observation) {
  propose(observation.index);
  std::optional<double>& entry = entries_.at(observation.index);
  if (entry) return false;
  entry = observation.succeeded() ? observation.time_us : std::numeric_limits<double>::infinity();
  results_.push_back({observation.index, *entry});
  if (observation.succeeded() && (!best_ || observation.time_us < results_[*best_].time_us))
    best_ = results_.size() - 1;
  return true;
}

std::optional<std::uint64_t> TrialBook::draw_open() {
  const std::vector<std::uint64_t> drawn = random_.ask(1);
  return drawn.empty() ? std::nullopt : std::optional(drawn.front());
}

std::vector<std::uint64_t> TrialBook::pending() const {
  std::vector<std::uint64_t> indices;
  for (const auto& [index, time] : entries_) {
    if (!time) indices.push_back(index);
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::optional<Observation> TrialBook::best() const {
  return best_ ? std::optional(results_[*best_]) : std::nullopt;
}

}  // namespace knobwise
