#include "tuner/strategies/surrogate_strategy.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kFirstTrials = 10;  // before the model is asked
constexpr std::size_t kLeastSuccesses = 2;
constexpr std::size_t kTrusted = 2;  // suggestions tried before they are compared with what is found here
constexpr std::uint64_t kBookSeed = 0x9E3779B97F4A7C15u;

}  // namespace

SurrogateStrategy::SurrogateStrategy(const BoundSpace& space, SurrogateEffort effort, std::uint64_t seed)
    : space_(space), book_(space, seed ^ kBookSeed), surrogate_(space, effort, seed) {}

void SurrogateStrategy::suggest(const std::vector<std::uint64_t>& indices) {
  suggestions_.assign(indices.begin(), indices.end());
}

void SurrogateStrategy::tell(const Observation& observation) {
  const auto aside = aside_.find(observation.index);
  if (aside == aside_.end()) return learn(observation);
  if (aside->second) return;
  aside->second = observation;
  if (observation.succeeded()) fastest_suggestion_ = std::min(fastest_suggestion_, observation.time_us);
}

void SurrogateStrategy::learn(const Observation& observation) {
  if (!book_.record(observation) || !observation.succeeded()) return;
  ++successes_;
  fastest_other_ = std::min(fastest_other_, observation.time_us);
}

std::optional<std::uint64_t> SurrogateStrategy::next_suggestion() {
  const bool in_turn = suggestions_tried_ < kTrusted + others_tried_;
  const bool promising = suggestions_tried_ < kTrusted || fastest_suggestion_ <= fastest_other_;
  while (in_turn && promising && !suggestions_.empty()) {
    const std::uint64_t index = suggestions_.front();
    suggestions_.pop_front();
    if (!book_.open(index) || !aside_.try_emplace(index).second) continue;
    ++suggestions_tried_;
    return index;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SurrogateStrategy::next_of_search() {
  while (const std::optional<std::uint64_t> index = choose_next()) {
    book_.propose(*index);
    const auto aside = aside_.extract(*index);
    if (aside.empty()) {
      ++others_tried_;
      return index;
    }
    if (aside.mapped()) learn(*aside.mapped());
  }
  return std::nullopt;
}

std::optional<std::uint64_t> SurrogateStrategy::choose_next() {
  if (book_.exhausted()) return std::nullopt;
  if (book_.results().size() < kFirstTrials || successes_ < kLeastSuccesses) return book_.draw_open();
  surrogate_.update(book_);
  const std::optional<std::uint64_t> chosen = choose(surrogate_);
  return chosen ? chosen : book_.draw_open();
}

std::vector<std::uint64_t> SurrogateStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count) {
    std::optional<std::uint64_t> index = next_suggestion();
    if (!index) index = next_of_search();
    if (!index) break;
    proposals.push_back(*index);
  }
  return proposals;
}

}  // namespace knobwise
