// Runs a strategy on a recording instead of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tuner/simulation/recording.h"
#include "tuner/simulation/score.h"

namespace knobwise {

/// What one search did. A value type.
struct Replay {
  Curve curve;  ///< One entry for each trial of the budget; a search that ended early keeps its last value.
  std::size_t trials = 0;    ///< Unique evaluations, failures included.
  std::size_t failures = 0;  ///< Of those.
  double seconds = 0;        ///< Processor time of the strategy itself.
};

/// One search of at most `max_trials` unique evaluations, one at a time. Throws UserError for an unknown
/// strategy.
Replay replay(const BoundSpace& space, const Recording& recording, const std::string& strategy,
              std::uint64_t seed, std::size_t max_trials);

/// Many searches, with seeds 0 .. repeats-1, summed up. A value type.
struct Simulation {
  std::string strategy;
  std::string recording;
  std::size_t repeats = 0;
  RandomSearch random;
  std::vector<double> mean_curve;    ///< Before the first success a search counts as the median.
  std::vector<double> median_curve;  ///< Likewise.
  Estimate score;
  double failed_share = 0;       ///< Of all trials.
  double seconds_per_trial = 0;  ///< Processor time of the strategy itself.
};

Simulation simulate(const BoundSpace& space, const Recording& recording, const std::string& strategy,
                    std::size_t max_trials, std::size_t repeats);

}  // namespace knobwise
