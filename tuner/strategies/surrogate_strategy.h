// What the searches that follow a model share.
#pragma once

#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>

#include "tuner/strategies/strategy.h"
#include "tuner/strategies/surrogate.h"
#include "tuner/strategies/trial_book.h"

namespace knobwise {

/// A few random configurations, then whatever the model values most; random ones again when the model knows
/// nothing open.
///
/// Suggestions are tried besides: two at once, then in turns with the search for as long as the fastest of
/// them is faster than all else. The search proposes what it would without them, but for what was tried
/// already, whose result it takes when it comes to it. Learnt from at once, what is fast elsewhere kept the
/// model in regions that are merely good here.
class SurrogateStrategy : public Strategy {
 public:
  SurrogateStrategy(const BoundSpace& space, SurrogateEffort effort, std::uint64_t seed);

  std::vector<std::uint64_t> ask(std::size_t count) final;
  void suggest(const std::vector<std::uint64_t>& indices) final;
  void tell(const Observation& observation) final;

 protected:
  /// The next proposal, given a model that is up to date; none leaves it to chance.
  virtual std::optional<std::uint64_t> choose(Surrogate& surrogate) = 0;

  const BoundSpace& space() const { return space_; }
  /// Of the search: suggestions are in it once the search has come to them.
  const TrialBook& book() const { return book_; }

 private:
  std::optional<std::uint64_t> next_suggestion();
  std::optional<std::uint64_t> next_of_search();
  std::optional<std::uint64_t> choose_next();
  void learn(const Observation& observation);

  BoundSpace space_;
  TrialBook book_;
  Surrogate surrogate_;
  std::deque<std::uint64_t> suggestions_;  // not yet tried
  // Suggestions that were tried and that the search has not come to, with their results.
  std::unordered_map<std::uint64_t, std::optional<Observation>> aside_;
  std::size_t suggestions_tried_ = 0, others_tried_ = 0;
  double fastest_suggestion_ = std::numeric_limits<double>::infinity();
  double fastest_other_ = std::numeric_limits<double>::infinity();
  std::size_t successes_ = 0;  // in book_
};

}  // namespace knobwise
