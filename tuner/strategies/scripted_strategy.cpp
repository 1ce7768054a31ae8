#include "tuner/strategies/scripted_strategy.h"

#include <algorithm>

namespace knobwise {
namespace {

// A search that finds nothing new for this many evaluations in a row is stuck.
constexpr std::size_t kStuck = 200;
// The book draws its own numbers, so that what fills in does not change the search's.
constexpr std::uint64_t kBookSeed = 0x9E3779B97F4A7C15u;

}  // namespace

ScriptedStrategy::ScriptedStrategy(const BoundSpace& space, std::uint64_t seed)
    : space_(space), book_(space, seed ^ kBookSeed), random_(seed) {}

ScriptedStrategy::~ScriptedStrategy() {
  if (owned_) owned_.destroy();
}

bool ScriptedStrategy::Evaluation::await_ready() {
  const bool known = std::all_of(indices_.begin(), indices_.end(),
                                 [&](std::uint64_t index) { return owner_.book_.known(index); });
  return known && ++owner_.remembered_ < kStuck;
}

void ScriptedStrategy::Evaluation::await_suspend(std::coroutine_handle<>) {
  owner_.awaited_ = indices_;
  if (owner_.remembered_ >= kStuck) {
    if (const auto diversion = owner_.book_.draw_open()) owner_.awaited_.push_back(*diversion);
  }
  owner_.remembered_ = 0;
  owner_.wanted_.assign(owner_.awaited_.begin(), owner_.awaited_.end());
}

std::vector<double> ScriptedStrategy::Evaluation::await_resume() const {
  std::vector<double> times;
  times.reserve(indices_.size());
  for (std::uint64_t index : indices_) times.push_back(*owner_.book_.time(index));
  return times;
}

bool ScriptedStrategy::waiting() const {
  return !std::all_of(awaited_.begin(), awaited_.end(),
                      [&](std::uint64_t index) { return book_.known(index); });
}

// Runs the search until it wants something that is not known.
void ScriptedStrategy::advance() {
  if (!owned_) script_ = owned_ = search().handle();
  while (script_ && !book_.exhausted() && wanted_.empty() && !waiting()) {
    script_.resume();
    if (script_.done()) script_ = nullptr;
  }
}

std::vector<std::uint64_t> ScriptedStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count && !book_.exhausted()) {
    advance();
    while (!wanted_.empty() && proposals.size() < count) {
      const std::uint64_t index = wanted_.front();
      wanted_.pop_front();
      if (!book_.open(index)) continue;
      book_.propose(index);
      proposals.push_back(index);
    }
    if (proposals.size() == count || (script_ && !waiting())) continue;
    const auto filler = book_.draw_open();
    if (!filler) break;
    book_.propose(*filler);
    proposals.push_back(*filler);
  }
  return proposals;
}

std::vector<std::uint64_t> ScriptedStrategy::shuffled_neighbours(std::uint64_t index) {
  std::vector<std::uint64_t> neighbours = space_.neighbours(index, Neighbourhood::hamming);
  for (std::size_t i = neighbours.size(); i > 1; --i) std::swap(neighbours[i - 1], neighbours[below(i)]);
  return neighbours;
}

}  // namespace knobwise
