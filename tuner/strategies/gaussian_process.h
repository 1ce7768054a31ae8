// Gaussian-process regression with a Matern-5/2 kernel over encoded configurations.
//
// C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, 2006: chapters 2, 4.2 and 5.4.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <vector>

namespace knobwise {

/// A value type.
struct KernelParameters {
  Eigen::VectorXd log_lengths;  ///< One for each feature of an Encoding, shared by its coordinates.
  double log_noise = 0;         ///< Variance of what lengths cannot explain, in units of the signal's.
};

/// What to expect before any data: lengths as broad as C. Hvarfner et al., Vanilla Bayesian Optimization
/// Performs Great in High Dimensions, 2024, and little noise.
KernelParameters prior_parameters(std::size_t features);

/// The parameters that maximise the posterior density given the points (rows) and their targets, climbed to
/// from `start` and from the prior in a fixed number of gradient steps. The mean is the best one; the
/// signal's variance too, with a prior of one observation. `feature_of`: the feature of each coordinate.
KernelParameters fit_parameters(const Eigen::MatrixXf& points, const Eigen::VectorXd& targets,
                                const std::vector<std::size_t>& feature_of, const KernelParameters& start);

/// The posterior at a fixed list of candidates, updated trial by trial: adding one costs O(trials x
/// candidates).
class CandidatePosterior {
 public:
  /// `candidates`: one row for each; `trials`: as many as are expected. Memory: candidates x trials floats.
  CandidatePosterior(const KernelParameters& parameters, const std::vector<std::size_t>& feature_of,
                     const Eigen::MatrixXf& candidates, std::size_t trials);

  std::size_t trials() const { return static_cast<std::size_t>(count_); }
  std::size_t candidates() const { return static_cast<std::size_t>(rows_); }
  void add_trial(const Eigen::RowVectorXf& point);
  /// Forgets the latest trials.
  void shrink(std::size_t trials);
  void add_candidates(const Eigen::MatrixXf& points);

  struct Prediction {
    Eigen::ArrayXf mean, deviation;  ///< Of what a trial of each candidate would give.
  };
  /// `targets`: of the first trials, in order. Later ones count as if they had given what is expected.
  Prediction predict(const Eigen::VectorXd& targets) const;

  /// For each candidate the mean of labels, given for the first trials, weighted by the kernel; `prior` is a
  /// label with the weight of a trial at no distance. The label of a trial must not change until it is
  /// forgotten: sums are kept from call to call.
  Eigen::ArrayXf smooth(const Eigen::VectorXf& labels, float prior);

 private:
  Eigen::VectorXf kernel(const Eigen::Ref<const Eigen::MatrixXf>& points,
                         const Eigen::Ref<const Eigen::RowVectorXf>& point) const;

  void grow_trials(Eigen::Index capacity);
  void grow_candidates();

  Eigen::RowVectorXf scale_;  // 1 / length for each coordinate
  double noise_;
  Eigen::Index count_ = 0, rows_ = 0;  // trials and candidates
  Eigen::MatrixXf candidates_;  // scaled; capacity beyond rows_, as in all that has a row for each candidate
  Eigen::MatrixXf points_;      // of trials, scaled; capacity beyond count_
  Eigen::MatrixXf factor_;      // lower Cholesky factor of the trials' kernel matrix, likewise
  Eigen::MatrixXf solved_;      // candidates x trials: kernel * inverse(factor') , likewise
  Eigen::MatrixXf similar_;     // candidates x trials: the kernel, likewise
  Eigen::ArrayXf explained_;    // for each candidate the sum of squares of its row of solved_
  Eigen::Index summed_ = 0;     // trials in the sums of smooth(), which a change of candidates makes void
  Eigen::VectorXf similar_sum_, label_sum_;
};

}  // namespace knobwise
