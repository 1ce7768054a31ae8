// A model of a space, learnt from trials, that says where to look next.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "tuner/strategies/encoding.h"
#include "tuner/strategies/gaussian_process.h"
#include "tuner/strategies/trial_book.h"

namespace knobwise {

/// How much effort a model takes. A value type.
struct SurrogateEffort {
  std::size_t candidates;  ///< Considered at a time: the whole space up to twice this, else a sample of half.
  std::size_t fitted;      ///< Trials that the parameters are fitted to, at most.
  double growth;           ///< Parameters are fitted again when there are this many times more trials.
};

/// A Gaussian process over the logarithms of times.
///
/// Only what is faster than the median matters: slower trials count as the median, so that they bend the
/// model no further. Failed trials count likewise, and lower the chance of success around them. What the
/// model leaves unexplained is a roughness of the space, not a noise of measurements: it is part of what an
/// untried configuration may gain.
class Surrogate {
 public:
  Surrogate(const BoundSpace& space, SurrogateEffort effort, std::uint64_t seed);

  /// Learns what is new in the book; pending trials count as if they had turned out as expected. At least two
  /// trials must have succeeded.
  void update(const TrialBook& book);

  /// The open candidate with the largest expected improvement times chance of success; none if none is open.
  std::optional<std::uint64_t> best_candidate(const TrialBook& book) const;
  /// Likewise among these configurations, which become candidates.
  std::optional<std::uint64_t> best_of(const std::vector<std::uint64_t>& indices, const TrialBook& book);

 private:
  void rebuild(const TrialBook& book);
  void choose_candidates(const std::vector<std::uint64_t>& fastest, const TrialBook& book);
  void add_rows(const std::vector<std::uint64_t>& pending, const TrialBook& book);
  void predict(const TrialBook& book);

  BoundSpace space_;
  Encoding encoding_;
  SurrogateEffort effort_;
  std::mt19937_64 random_;
  KernelParameters parameters_;
  std::size_t next_fit_ = 0;  // results
  std::vector<std::uint64_t> candidates_;
  std::unordered_map<std::uint64_t, std::size_t> candidate_of_;
  std::optional<CandidatePosterior> posterior_;
  std::vector<std::uint64_t> rows_;  // the trials of posterior_: known ones, then pending ones
  std::size_t known_rows_ = 0;
  std::size_t learnt_ = 0;  // results seen so far
  Eigen::ArrayXf value_;    // for each candidate the expected improvement times the chance of success
};

}  // namespace knobwise
