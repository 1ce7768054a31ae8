#include "tuner/strategies/gaussian_process.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>

namespace knobwise {
namespace {

const double kRoot5 = std::sqrt(5.0);
constexpr double kLengthSpread = 1.7320508;  // standard deviation of log length
constexpr double kNoise = 1e-3;
constexpr double kNoiseSpread = 1.5;
constexpr double kMinimumNoise = 1e-5;
constexpr int kSteps = 14;

}  // namespace

KernelParameters prior_parameters(std::size_t features) {
  const double mean =
      std::sqrt(2.0) + 0.5 * std::log(static_cast<double>(std::max<std::size_t>(features, 1)));
  return {Eigen::VectorXd::Constant(static_cast<Eigen::Index>(features), mean), std::log(kNoise)};
}

namespace {

/// The log posterior density of kernel parameters and its gradient.
class Likelihood {
 public:
  Likelihood(const Eigen::MatrixXf& points, const Eigen::VectorXd& targets,
             const std::vector<std::size_t>& feature_of, const KernelParameters& prior)
      : targets_(targets), prior_(prior), size_(points.rows()) {
    squares_.assign(static_cast<std::size_t>(prior.log_lengths.size()), Eigen::MatrixXd::Zero(size_, size_));
    for (Eigen::Index c = 0; c < points.cols(); ++c) {
      const Eigen::VectorXd x = points.col(c).cast<double>();
      squares_[feature_of[static_cast<std::size_t>(c)]].array() +=
          (x.replicate(1, size_) - x.transpose().replicate(size_, 1)).array().square();
    }
  }

  /// `gradient`: by log length, and last by log noise.
  double operator()(const KernelParameters& at, Eigen::VectorXd& gradient) const {
    Eigen::ArrayXXd distance = Eigen::ArrayXXd::Constant(size_, size_, 1e-12);
    const Eigen::VectorXd weights = (-2 * at.log_lengths.array()).exp();
    for (std::size_t k = 0; k < squares_.size(); ++k)
      distance += squares_[k].array() * weights[static_cast<Eigen::Index>(k)];
    distance = kRoot5 * distance.sqrt();
    const Eigen::ArrayXXd decay = (-distance).exp();
    Eigen::MatrixXd covariance = (1 + distance + distance.square() / 3) * decay;
    const double noise = std::exp(at.log_noise) + kMinimumNoise;
    covariance.diagonal().array() += noise;
    const Eigen::LLT<Eigen::MatrixXd> factor(covariance);
    const Eigen::MatrixXd inverse = factor.solve(Eigen::MatrixXd::Identity(size_, size_));
    const double center = (inverse * targets_).sum() / inverse.sum();
    const Eigen::VectorXd residual = targets_.array() - center;
    const Eigen::VectorXd weighted = inverse * residual;
    const double n = static_cast<double>(size_);
    const double variance = (residual.dot(weighted) + 1) / (n + 1);
    const double log_determinant = 2 * factor.matrixLLT().diagonal().array().log().sum();
    double value = -0.5 * ((n + 1) * std::log(variance) + log_determinant);
    // d value / d covariance, and the covariance's derivative by a squared distance.
    const Eigen::ArrayXXd sensitivity = 0.5 * (weighted * weighted.transpose() / variance - inverse).array();
    const Eigen::ArrayXXd slope = sensitivity * (5.0 / 3.0) * (1 + distance) * decay;
    gradient.resize(at.log_lengths.size() + 1);
    for (Eigen::Index k = 0; k < at.log_lengths.size(); ++k) {
      const double off = (at.log_lengths[k] - prior_.log_lengths[k]) / kLengthSpread;
      gradient[k] =
          weights[k] * (slope * squares_[static_cast<std::size_t>(k)].array()).sum() - off / kLengthSpread;
      value -= 0.5 * off * off;
    }
    const double off = (at.log_noise - prior_.log_noise) / kNoiseSpread;
    gradient[at.log_lengths.size()] =
        sensitivity.matrix().trace() * std::exp(at.log_noise) - off / kNoiseSpread;
    return value - 0.5 * off * off;
  }

 private:
  const Eigen::VectorXd& targets_;
  KernelParameters prior_;
  Eigen::Index size_;
  std::vector<Eigen::MatrixXd> squares_;  // for each knob, of the distances between points
};

}  // namespace

namespace {

struct Fit {
  KernelParameters parameters;
  double value = -std::numeric_limits<double>::infinity();
};

// Resilient backpropagation (Riedmiller, Braun, 1993): a step for each parameter, which grows while the
// gradient keeps its sign.
Fit climb(const Likelihood& likelihood, const KernelParameters& start) {
  Fit best{start};
  KernelParameters at = start;
  const Eigen::Index lengths = at.log_lengths.size();
  Eigen::VectorXd gradient, previous = Eigen::VectorXd::Zero(lengths + 1);
  Eigen::ArrayXd step = Eigen::ArrayXd::Constant(lengths + 1, 0.4);
  for (int i = 0; i < kSteps; ++i) {
    const double value = likelihood(at, gradient);
    if (!std::isfinite(value) || !gradient.allFinite()) break;
    if (value > best.value) best = {at, value};
    const Eigen::ArrayXd agreement = gradient.array() * previous.array();
    step = (agreement > 0).select((step * 1.3).min(1.0), (agreement < 0).select(step * 0.5, step));
    const Eigen::ArrayXd move = gradient.array().sign() * step;
    at.log_lengths += move.head(lengths).matrix();
    at.log_noise = std::min(at.log_noise + move[lengths], 0.0);
    previous = gradient;
  }
  return best;
}

}  // namespace

KernelParameters fit_parameters(const Eigen::MatrixXf& points, const Eigen::VectorXd& targets,
                                const std::vector<std::size_t>& feature_of, const KernelParameters& start) {
  const KernelParameters prior = prior_parameters(static_cast<std::size_t>(start.log_lengths.size()));
  const Likelihood likelihood(points, targets, feature_of, prior);
  const Fit from_start = climb(likelihood, start), from_prior = climb(likelihood, prior);
  return from_start.value >= from_prior.value ? from_start.parameters : from_prior.parameters;
}

CandidatePosterior::CandidatePosterior(const KernelParameters& parameters,
                                       const std::vector<std::size_t>& feature_of,
                                       const Eigen::MatrixXf& candidates, std::size_t trials)
    : scale_(static_cast<Eigen::Index>(feature_of.size())),
      noise_(std::exp(parameters.log_noise) + kMinimumNoise),
      points_(0, candidates.cols()) {
  for (std::size_t c = 0; c < feature_of.size(); ++c) {
    scale_[static_cast<Eigen::Index>(c)] =
        static_cast<float>(std::exp(-parameters.log_lengths[static_cast<Eigen::Index>(feature_of[c])]));
  }
  rows_ = candidates.rows();
  grow_candidates();
  grow_trials(static_cast<Eigen::Index>(trials));
  candidates_.topRows(rows_) = candidates * scale_.asDiagonal();
  explained_.head(rows_).setZero();
}

Eigen::VectorXf CandidatePosterior::kernel(const Eigen::Ref<const Eigen::MatrixXf>& points,
                                           const Eigen::Ref<const Eigen::RowVectorXf>& point) const {
  Eigen::ArrayXf distance = Eigen::ArrayXf::Zero(points.rows());
  for (Eigen::Index c = 0; c < points.cols(); ++c) distance += (points.col(c).array() - point[c]).square();
  distance = static_cast<float>(kRoot5) * distance.sqrt();
  return (1 + distance + distance.square() / 3) * (-distance).exp();
}

void CandidatePosterior::grow_trials(Eigen::Index capacity) {
  points_.conservativeResize(capacity, Eigen::NoChange);
  factor_.conservativeResize(capacity, capacity);
  solved_.conservativeResize(Eigen::NoChange, capacity);
  similar_.conservativeResize(Eigen::NoChange, capacity);
}

void CandidatePosterior::grow_candidates() {
  const Eigen::Index capacity = rows_ + rows_ / 4;
  candidates_.conservativeResize(capacity, scale_.size());
  solved_.conservativeResize(capacity, Eigen::NoChange);
  similar_.conservativeResize(capacity, Eigen::NoChange);
  explained_.conservativeResize(capacity);
}

void CandidatePosterior::add_trial(const Eigen::RowVectorXf& point) {
  if (count_ == points_.rows()) grow_trials(std::max<Eigen::Index>(32, 2 * count_));
  const Eigen::RowVectorXf scaled = point * scale_.asDiagonal();
  const Eigen::VectorXf row = factor_.topLeftCorner(count_, count_)
                                  .triangularView<Eigen::Lower>()
                                  .solve(kernel(points_.topRows(count_), scaled));
  const float pivot =
      std::sqrt(std::max(1 + static_cast<float>(noise_) - row.squaredNorm(), static_cast<float>(noise_)));
  factor_.row(count_).head(count_) = row.transpose();
  factor_(count_, count_) = pivot;
  points_.row(count_) = scaled;
  auto similar = similar_.col(count_).head(rows_);
  auto solved = solved_.col(count_).head(rows_);
  similar = kernel(candidates_.topRows(rows_), scaled);
  solved = (similar - solved_.topLeftCorner(rows_, count_) * row) / pivot;
  explained_.head(rows_) += solved.array().square();
  ++count_;
}

void CandidatePosterior::shrink(std::size_t trials) {
  for (; static_cast<std::size_t>(count_) > trials; --count_)
    explained_.head(rows_) -= solved_.col(count_ - 1).head(rows_).array().square();
  if (summed_ > count_) label_sum_.resize(0);
}

void CandidatePosterior::add_candidates(const Eigen::MatrixXf& points) {
  const Eigen::Index old = rows_, added = points.rows();
  rows_ += added;
  if (rows_ > candidates_.rows()) grow_candidates();
  candidates_.middleRows(old, added) = points * scale_.asDiagonal();
  for (Eigen::Index i = 0; i < count_; ++i)
    similar_.col(i).segment(old, added) = kernel(candidates_.middleRows(old, added), points_.row(i));
  const Eigen::MatrixXf rows = factor_.topLeftCorner(count_, count_)
                                   .triangularView<Eigen::Lower>()
                                   .solve(similar_.block(old, 0, added, count_).transpose());
  solved_.block(old, 0, added, count_) = rows.transpose();
  explained_.segment(old, added) = rows.colwise().squaredNorm().transpose().array();
}

CandidatePosterior::Prediction CandidatePosterior::predict(const Eigen::VectorXd& targets) const {
  const Eigen::Index known = targets.size();
  const auto factor = factor_.topLeftCorner(known, known).triangularView<Eigen::Lower>();
  const Eigen::VectorXf ones = factor.solve(Eigen::VectorXf::Ones(known));
  const Eigen::VectorXf raw = factor.solve(targets.cast<float>());
  const float center = raw.dot(ones) / ones.squaredNorm();
  const Eigen::VectorXf residual = raw - center * ones;
  const float variance = (residual.squaredNorm() + 1) / static_cast<float>(known + 1);
  Prediction prediction;
  prediction.mean = center + (solved_.topLeftCorner(rows_, known) * residual).array();
  prediction.deviation =
      (variance * ((1 - explained_.head(rows_)).max(0.0f) + static_cast<float>(noise_))).sqrt();
  return prediction;
}

Eigen::ArrayXf CandidatePosterior::smooth(const Eigen::VectorXf& labels, float prior) {
  const Eigen::Index known = labels.size();
  if (label_sum_.size() != rows_ || summed_ > known) {
    summed_ = 0;
    similar_sum_ = label_sum_ = Eigen::VectorXf::Zero(rows_);
  }
  for (; summed_ < known; ++summed_) {
    const auto similar = similar_.col(summed_).head(rows_);
    similar_sum_ += similar;
    label_sum_ += labels[summed_] * similar;
  }
  return (prior + label_sum_.array()) / (1 + similar_sum_.array());
}

}  // namespace knobwise
