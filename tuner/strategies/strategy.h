// What a search strategy is: it proposes configurations and learns how they did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// How one configuration did. A failed trial is information, neither a crash nor a fast time.
struct Observation {
  std::uint64_t index = 0;  ///< In the strategy's space.
  /// Microseconds; infinite when the trial failed or was not accurate enough. What is no time (NaN, 0 or
  /// less) counts as failed.
  double time_us = std::numeric_limits<double>::infinity();

  bool succeeded() const { return time_us > 0 && time_us < std::numeric_limits<double>::infinity(); }
};

/// Proposes configurations of one space. Seeded and deterministic: the same seed and the same observations in
/// the same order give the same proposals. Not thread-safe.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Up to `count` configurations, none of which was proposed before; an empty answer means that it has no
  /// more. May be called again before the answers to earlier proposals are told.
  virtual std::vector<std::uint64_t> ask(std::size_t count) = 0;

  /// Configurations that did well elsewhere, the most promising first, for a strategy that begins with such;
  /// called before the first ask(). Others take no notice.
  virtual void suggest(const std::vector<std::uint64_t>& indices) { (void)indices; }

  /// The result of a proposal, or of a configuration that was known from elsewhere, which is not proposed
  /// afterwards.
  virtual void tell(const Observation& observation) = 0;
};

/// The names that make_strategy() knows, each with one line of explanation, in the order in which help shows
/// them.
const std::vector<std::pair<std::string, std::string>>& strategy_names();

/// Throws UserError for a name that it does not know.
std::unique_ptr<Strategy> make_strategy(std::string_view name, const BoundSpace& space, std::uint64_t seed);

}  // namespace knobwise
