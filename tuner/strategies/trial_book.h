// What a strategy remembers: which configurations were proposed, and how those with a result did.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "tuner/strategies/random.h"
#include "tuner/strategies/strategy.h"

namespace knobwise {

/// Memory follows the trials, never the size of the space. Not thread-safe.
class TrialBook {
 public:
  TrialBook(const BoundSpace& space, std::uint64_t seed) : size_(space.size()), random_(space, seed) {}

  /// Neither proposed nor told.
  bool open(std::uint64_t index) const { return !entries_.contains(index); }
  /// Has a result.
  bool known(std::uint64_t index) const { return time(index).has_value(); }
  /// The result: infinite for a failed trial, none before it is known.
  std::optional<double> time(std::uint64_t index) const;
  /// Every configuration was proposed or told.
  bool exhausted() const { return entries_.size() >= size_; }

  void propose(std::uint64_t index);
  /// Keeps the first result of a configuration; true if it is new.
  bool record(const Observation& observation);
  /// An open configuration, drawn uniformly, that the caller is about to propose: none is drawn twice. None
  /// when there is none left.
  std::optional<std::uint64_t> draw_open();

  /// Results in the order in which they were told.
  const std::vector<Observation>& results() const { return results_; }
  /// Proposed and not yet told, in ascending order.
  std::vector<std::uint64_t> pending() const;
  /// The fastest success, the first of equals; none before there is one.
  std::optional<Observation> best() const;

 private:
  std::uint64_t size_;
  RandomStrategy random_;
  std::unordered_map<std::uint64_t, std::optional<double>> entries_;
  std::vector<Observation> results_;
  std::optional<std::size_t> best_;  // within results_
};

}  // namespace knobwise
