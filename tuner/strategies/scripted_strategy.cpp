#include "tuner/strategies/scripted_strategy.h"

#include <algorithm>
#include <cmath>

namespace knobwise {
namespace {

// A search that finds nothing new for this many evaluations in a row is stuck.
constexpr std::size_t kStuck = 200;
constexpr int kMoves = 20;  // drawn before something less random is done
// The book draws its own numbers, so that what fills in does not change the search's.
constexpr std::uint64_t kBookSeed = 0x9E3779B97F4A7C15u;

}  // namespace

ScriptedStrategy::ScriptedStrategy(const BoundSpace& space, std::uint64_t seed)
    : space_(space), book_(space, seed ^ kBookSeed), random_(seed) {
  for (std::size_t knob = 0; knob < space.knobs().size(); ++knob)
    if (space.knobs()[knob].values.size() > 1) choices_.push_back(knob);
}

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

std::vector<std::uint64_t> ScriptedStrategy::random_indices(std::size_t count) {
  std::vector<std::uint64_t> indices;
  while (indices.size() < count) indices.push_back(random_index());
  return indices;
}

std::vector<Observation> ScriptedStrategy::fastest(const std::vector<std::uint64_t>& indices,
                                                   const std::vector<double>& times, std::size_t count) {
  std::vector<Observation> sorted;
  for (std::size_t i = 0; i < indices.size(); ++i) sorted.push_back({indices[i], times[i]});
  std::stable_sort(sorted.begin(), sorted.end(), faster);
  sorted.resize(count);
  return sorted;
}

void ScriptedStrategy::step(Positions& positions, std::size_t knob) {
  const std::size_t values = space_.knobs()[knob].values.size();
  const auto distance =
      static_cast<std::int64_t>(std::exp(uniform() * std::log(static_cast<double>(values))));
  const std::int64_t to = positions[knob] + (below(2) == 0 ? distance : -distance);
  if (to >= 0 && to < static_cast<std::int64_t>(values)) positions[knob] = static_cast<std::uint32_t>(to);
}

std::uint64_t ScriptedStrategy::random_neighbour(std::uint64_t index) {
  const Positions from = space_.positions(index);
  for (int tries = 0; tries < kMoves && !choices_.empty(); ++tries) {
    Positions to = from;
    step(to, choices_[below(choices_.size())]);
    const auto valid = space_.index_of(to);
    if (valid && book_.open(*valid)) return *valid;
  }
  const std::vector<std::uint64_t> all = shuffled_neighbours(index);
  const auto open = std::find_if(all.begin(), all.end(), [&](std::uint64_t one) { return book_.open(one); });
  if (open != all.end()) return *open;
  return all.empty() ? random_index() : all.front();
}

std::uint64_t ScriptedStrategy::mix(std::uint64_t one, std::uint64_t other) {
  const Positions from = space_.positions(one), to = space_.positions(other);
  Positions mixed;
  for (int tries = 0; tries < kMoves; ++tries) {
    mixed = from;
    for (std::size_t knob : choices_) {
      if (below(2) == 0) mixed[knob] = to[knob];
    }
    if (mixed == from) step(mixed, choices_[below(choices_.size())]);
    const auto valid = space_.index_of(mixed);
    if (valid && book_.open(*valid)) return *valid;
  }
  return repaired(mixed);
}

std::uint64_t ScriptedStrategy::repaired(const Positions& positions) {
  const auto valid = space_.index_of(positions);
  const std::uint64_t index = valid ? *valid : space_.nearest(positions);
  return book_.open(index) ? index : random_neighbour(index);
}

void ScriptedStrategy::mutate(Positions& positions) {
  for (std::size_t knob : choices_) {
    if (below(choices_.size()) == 0) step(positions, knob);
  }
}

std::vector<std::uint64_t> ScriptedStrategy::shuffled_neighbours(std::uint64_t index) {
  std::vector<std::uint64_t> neighbours = space_.neighbours(index, Neighbourhood::hamming);
  for (std::size_t i = neighbours.size(); i > 1; --i) std::swap(neighbours[i - 1], neighbours[below(i)]);
  return neighbours;
}

}  // namespace knobwise
