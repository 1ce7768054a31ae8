// A hash table that readers probe without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/choice.h"

namespace knobwise::runtime_detail {

/// Choices by problem and requirement. find() may run at any time beside the other calls; choices are never
/// moved or freed before the table, for plans refer to them.
class ChoiceTable {
 public:
  ChoiceTable();

  /// Null if there is none of this period. No lock, no allocation.
  const Choice* find(std::uint64_t hash, std::string_view key) const;

  /// Publishes a choice for this period and returns it. If there is one with an equal key that is of this
  /// period or the same answer, returns that one; an older one with another answer gives way.
  const Choice* insert(std::unique_ptr<Choice> choice);

  /// Begins a new period: lookups find nothing until it is inserted again.
  void begin_period();

 private:
  using Slot = std::atomic<const Choice*>;
  // Open addressing with linear probing; never more than half full.
  struct Slots {
    explicit Slots(std::size_t size) : entries(size) {}
    std::vector<Slot> entries;  // size is a power of two
    std::size_t used = 0;
  };
  // The slot of a key, or the empty one where it belongs.
  template <class SlotsType>
  static auto& slot_of(SlotsType& slots, std::uint64_t hash, std::string_view key);
  Slots& grown(std::size_t size);

  std::atomic<Slots*> current_;
  std::atomic<std::uint32_t> period_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> generations_;  // old ones stay: a reader may be in them
  std::vector<std::unique_ptr<Choice>> choices_;
};

}  // namespace knobwise::runtime_detail
