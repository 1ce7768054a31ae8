// A hash set for interning. Internal to search_spaces/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace knobwise {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// An open-addressing set of the numbers 0, 1, 2, ... that stand for things which the caller stores, compares
/// and hashes.
class NumberTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  NumberTable() : cells_(64, kNone) {}

  /// The number of an equal thing; kNone if there is none, and then `next`, the number of elements so far,
  /// has been inserted for the new one.
  template <class Equal>
  std::uint32_t find_or_insert(std::uint64_t hash, std::uint32_t next, Equal equal) {
    if (hashes_.size() * 2 >= cells_.size()) grow();
    std::size_t cell = hash & (cells_.size() - 1);
    while (cells_[cell] != kNone) {
      if (hashes_[cells_[cell]] == hash && equal(cells_[cell])) return cells_[cell];
      cell = (cell + 1) & (cells_.size() - 1);
    }
    cells_[cell] = next;
    hashes_.push_back(hash);
    return kNone;
  }

 private:
  void grow() {
    std::vector<std::uint32_t> cells(cells_.size() * 4, kNone);
    for (std::uint32_t number = 0; number < hashes_.size(); ++number) {
      std::size_t cell = hashes_[number] & (cells.size() - 1);
      while (cells[cell] != kNone) cell = (cell + 1) & (cells.size() - 1);
      cells[cell] = number;
    }
    cells_ = std::move(cells);
  }

  std::vector<std::uint32_t> cells_;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace knobwise
