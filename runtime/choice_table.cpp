#include "runtime/choice_table.h"

namespace knobwise::runtime_detail {
namespace {

constexpr std::size_t kFirstSize = 256;

bool same_accuracy(const std::optional<AccuracyRequirement>& a, const std::optional<AccuracyRequirement>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || (a->max_abs == b->max_abs && a->rel_fro == b->rel_fro && a->frac_outside == b->frac_outside);
}

bool same_requirement(const Requirement& a, const Requirement& b) {
  return same_accuracy(a.accuracy, b.accuracy) && a.max_workspace_bytes == b.max_workspace_bytes &&
         a.allow == b.allow && a.deterministic == b.deterministic && a.allow_stale == b.allow_stale;
}

}  // namespace

ChoiceTable::ChoiceTable() : current_(nullptr) {
  current_.store(grow(kFirstSize), std::memory_order_release);
}

ChoiceTable::Slots* ChoiceTable::grow(std::size_t size) {
  generations_.push_back(std::make_unique<Slots>(size));
  return generations_.back().get();
}

void ChoiceTable::place(Slots& slots, const Choice* choice) {
  const std::size_t mask = slots.entries.size() - 1;
  std::size_t at = choice->key.hash() & mask;
  while (slots.entries[at].load(std::memory_order_relaxed)) at = (at + 1) & mask;
  slots.entries[at].store(choice, std::memory_order_release);
  ++slots.used;
}

const Choice* ChoiceTable::find(std::uint64_t hash, const Problem& problem,
                                const Requirement& requirement) const {
  const Slots& slots = *current_.load(std::memory_order_acquire);
  const std::size_t mask = slots.entries.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Choice* choice = slots.entries[at].load(std::memory_order_acquire);
    if (!choice) return nullptr;
    if (choice->key.hash() == hash && choice->key.problem() == problem &&
        same_requirement(choice->key.requirement(), requirement)) {
      return choice;
    }
  }
}

const Choice* ChoiceTable::insert(std::unique_ptr<Choice> choice) {
  const std::lock_guard lock(mutex_);
  if (const Choice* present = find(choice->key.hash(), choice->key.problem(), choice->key.requirement()))
    return present;
  Slots* slots = current_.load(std::memory_order_relaxed);
  if (2 * (slots->used + 1) > slots->entries.size()) {
    Slots* larger = grow(2 * slots->entries.size());
    for (const auto& entry : slots->entries) {
      if (const Choice* old = entry.load(std::memory_order_relaxed)) place(*larger, old);
    }
    current_.store(larger, std::memory_order_release);
    slots = larger;
  }
  choices_.push_back(std::move(choice));
  place(*slots, choices_.back().get());
  return choices_.back().get();
}

void ChoiceTable::clear() {
  const std::lock_guard lock(mutex_);
  current_.store(grow(kFirstSize), std::memory_order_release);
}

}  // namespace knobwise::runtime_detail
