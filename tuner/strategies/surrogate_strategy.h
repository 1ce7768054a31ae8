// What the searches that follow a model share.
#pragma once

#include <deque>
#include <optional>

#include "tuner/strategies/strategy.h"
#include "tuner/strategies/surrogate.h"
#include "tuner/strategies/trial_book.h"

namespace knobwise {

/// What was suggested, then as many random configurations as without suggestions, so that what did well
/// elsewhere does not narrow the view of what does well here; then whatever the model values most. Random
/// ones again when the model knows nothing open.
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
  const TrialBook& book() const { return book_; }

 private:
  std::optional<std::uint64_t> next();

  BoundSpace space_;
  TrialBook book_;
  Surrogate surrogate_;
  std::deque<std::uint64_t> suggested_;
  std::size_t taken_ = 0;  // suggestions that were proposed
  std::size_t successes_ = 0;
};

}  // namespace knobwise
