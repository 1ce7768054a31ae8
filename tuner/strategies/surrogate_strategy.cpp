#include "tuner/strategies/surrogate_strategy.h"

namespace knobwise {
namespace {

constexpr std::size_t kFirstTrials = 10;  // before the model is asked, besides suggestions
constexpr std::size_t kLeastSuccesses = 2;
constexpr std::uint64_t kBookSeed = 0x9E3779B97F4A7C15u;

}  // namespace

SurrogateStrategy::SurrogateStrategy(const BoundSpace& space, SurrogateEffort effort, std::uint64_t seed)
    : space_(space), book_(space, seed ^ kBookSeed), surrogate_(space, effort, seed) {}

void SurrogateStrategy::suggest(const std::vector<std::uint64_t>& indices) {
  suggested_.assign(indices.begin(), indices.end());
}

void SurrogateStrategy::tell(const Observation& observation) {
  if (book_.record(observation) && observation.succeeded()) ++successes_;
}

std::optional<std::uint64_t> SurrogateStrategy::next() {
  if (book_.exhausted()) return std::nullopt;
  while (!suggested_.empty()) {
    const std::uint64_t index = suggested_.front();
    suggested_.pop_front();
    if (!book_.open(index)) continue;
    ++taken_;
    return index;
  }
  if (book_.results().size() < kFirstTrials + taken_ || successes_ < kLeastSuccesses)
    return book_.draw_open();
  surrogate_.update(book_);
  const std::optional<std::uint64_t> chosen = choose(surrogate_);
  return chosen ? chosen : book_.draw_open();
}

std::vector<std::uint64_t> SurrogateStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count) {
    const std::optional<std::uint64_t> index = next();
    if (!index) break;
    book_.propose(*index);
    proposals.push_back(*index);
  }
  return proposals;
}

}  // namespace knobwise
