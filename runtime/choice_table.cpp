#include "runtime/choice_table.h"

namespace knobwise::runtime_detail {
namespace {

constexpr std::size_t kFirstSize = 256;

}  // namespace

ChoiceTable::ChoiceTable() : current_(nullptr) {
  grown(kFirstSize);
}

template <class SlotsType>
auto& ChoiceTable::slot_of(SlotsType& slots, std::uint64_t hash, std::string_view key) {
  const std::size_t mask = slots.entries.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Choice* choice = slots.entries[at].load(std::memory_order_acquire);
    if (!choice || (choice->hash == hash && choice->key == key)) return slots.entries[at];
  }
}

const Choice* ChoiceTable::find(std::uint64_t hash, std::string_view key) const {
  const Slots& slots = *current_.load(std::memory_order_acquire);
  const Choice* choice = slot_of(slots, hash, key).load(std::memory_order_acquire);
  const bool found =
      choice && choice->period.load(std::memory_order_relaxed) == period_.load(std::memory_order_relaxed);
  return found ? choice : nullptr;
}

ChoiceTable::Slots& ChoiceTable::grown(std::size_t size) {
  auto larger = std::make_unique<Slots>(size);
  if (const Slots* smaller = current_.load(std::memory_order_relaxed)) {
    for (const Slot& entry : smaller->entries) {
      const Choice* choice = entry.load(std::memory_order_relaxed);
      if (!choice) continue;
      slot_of(*larger, choice->hash, choice->key).store(choice, std::memory_order_relaxed);
      ++larger->used;
    }
  }
  current_.store(larger.get(), std::memory_order_release);
  return *generations_.emplace_back(std::move(larger));
}

const Choice* ChoiceTable::insert(std::unique_ptr<Choice> choice) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t period = period_.load(std::memory_order_relaxed);
  Slots* slots = current_.load(std::memory_order_relaxed);
  if (2 * (slots->used + 1) > slots->entries.size()) slots = &grown(2 * slots->entries.size());
  Slot& slot = slot_of(*slots, choice->hash, choice->key);
  const Choice* present = slot.load(std::memory_order_relaxed);
  if (present &&
      (present->period.load(std::memory_order_relaxed) == period || present->same_answer(*choice))) {
    present->period.store(period, std::memory_order_relaxed);
    return present;
  }
  if (present) {
    // An answer of an earlier period, which plans may run, serves again.
    const auto earlier = std::ranges::find_if(choices_, [&](const auto& kept) {
      return kept->hash == choice->hash && kept->key == choice->key && kept->same_answer(*choice);
    });
    if (earlier != choices_.end()) {
      (*earlier)->period.store(period, std::memory_order_relaxed);
      slot.store(earlier->get(), std::memory_order_release);
      return earlier->get();
    }
  } else {
    ++slots->used;
  }
  choice->period.store(period, std::memory_order_relaxed);
  choices_.push_back(std::move(choice));
  slot.store(choices_.back().get(), std::memory_order_release);
  return choices_.back().get();
}

void ChoiceTable::begin_period() {
  const std::lock_guard lock(mutex_);
  period_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace knobwise::runtime_detail
