// A hash table that readers probe without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/choice.h"

namespace knobwise::runtime_detail {

/// Choices by problem and requirement. find() may run at any time beside insert(); choices are never moved or
/// freed before the table.
class ChoiceTable {
 public:
  ChoiceTable();

  /// Null if there is none. No lock, no allocation.
  const Choice* find(std::uint64_t hash, const Problem& problem, const Requirement& requirement) const;

  /// Publishes a choice and returns it; if an equal key is there already, returns that one.
  const Choice* insert(std::unique_ptr<Choice> choice);

  /// Forgets all choices for lookups; plans that hold one keep it.
  void clear();

 private:
  // Open addressing with linear probing; never more than half full.
  struct Slots {
    explicit Slots(std::size_t size) : entries(size) {}
    std::vector<std::atomic<const Choice*>> entries;  // size is a power of two
    std::size_t used = 0;
  };
  static void place(Slots& slots, const Choice* choice);
  Slots* grow(std::size_t size);

  std::atomic<Slots*> current_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> generations_;  // old ones stay: a reader may be in them
  std::vector<std::unique_ptr<Choice>> choices_;
};

}  // namespace knobwise::runtime_detail
