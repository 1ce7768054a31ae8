// How good a search was, measured against random search.
#pragma once

#include <cstddef>
#include <vector>

namespace knobwise {

/// Best time after each trial, 1 .. size(): the running minimum, infinite before the first success.
using Curve = std::vector<double>;

/// What random search without replacement reaches on a recording. A value type.
struct RandomSearch {
  /// Expected best after t = 1 .. N draws, computed exactly: failed draws give nothing, and draws that all
  /// failed count as `median`.
  std::vector<double> expected;
  double median = 0;   ///< Of the successes.
  double optimum = 0;  ///< The fastest success.
};

/// `times`: of every configuration, infinite for failures; at least one must be finite. `draws` beyond their
/// number find nothing more.
RandomSearch random_search(const std::vector<double>& times, std::size_t draws);

/// The mean over t of S(t) = (random(t) - curve(t)) / (random(t) - optimum): 0 is random search, 1 finds the
/// optimum at once. The curve, as long as random.expected, counts as the median before its first success. A t
/// at which random search is sure of the optimum says nothing and is left out; 0 if none remains.
///
/// S is linear in the curve, so that the score of a strategy, whose S(t) takes the mean of many curves, is
/// the mean of their scores.
double score(const Curve& curve, const RandomSearch& random);

struct Estimate {
  double mean = 0;
  double standard_error = 0;  ///< 0 for a single sample.
};

/// Of independent samples; at least one.
Estimate estimate(const std::vector<double>& samples);
/// At least one sample; of an even number the mean of the middle two.
double median(std::vector<double> samples);

}  // namespace knobwise
