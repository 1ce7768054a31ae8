#include "tuner/strategies/gaussian_process.h"

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <cmath>
#include <random>

namespace knobwise {
namespace {

constexpr int kDimensions = 3;
const std::vector<std::size_t> kGroups{0, 1, 2};

Eigen::MatrixXf random_points(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0, 1);
  return Eigen::MatrixXf::NullaryExpr(count, kDimensions, [&] { return uniform(random); });
}

KernelParameters parameters() {
  return {Eigen::Vector3d(std::log(0.4), std::log(0.7), std::log(1.1)), std::log(1e-3)};
}

double kernel(const Eigen::RowVectorXf& a, const Eigen::RowVectorXf& b) {
  const Eigen::RowVector3d lengths = parameters().log_lengths.array().exp().matrix().transpose();
  const double r = std::sqrt(5.0) * ((a - b).cast<double>().array() / lengths.array()).matrix().norm();
  return (1 + r + r * r / 3) * std::exp(-r);
}

// Textbook formulas in double precision, all at once.
struct Reference {
  Eigen::VectorXd mean, deviation;

  Reference(const Eigen::MatrixXf& points, const Eigen::VectorXd& targets,
            const Eigen::MatrixXf& candidates) {
    const Eigen::Index n = points.rows();
    Eigen::MatrixXd covariance(n, n), cross(candidates.rows(), n);
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index i = 0; i < n; ++i) covariance(i, j) = kernel(points.row(i), points.row(j));
      for (Eigen::Index i = 0; i < candidates.rows(); ++i)
        cross(i, j) = kernel(candidates.row(i), points.row(j));
    }
    constexpr double kNoise = 1e-3 + 1e-5;
    covariance.diagonal().array() += kNoise;
    const Eigen::MatrixXd inverse = covariance.inverse();
    const double center = (inverse * targets).sum() / inverse.sum();
    const Eigen::VectorXd residual = targets.array() - center;
    const double variance = (residual.dot(inverse * residual) + 1) / static_cast<double>(n + 1);
    mean = (cross * inverse * residual).array() + center;
    deviation =
        (variance * (1 + kNoise - (cross * inverse).cwiseProduct(cross).rowwise().sum().array())).sqrt();
  }
};

void expect_equal(const CandidatePosterior::Prediction& prediction, const Reference& reference) {
  for (Eigen::Index i = 0; i < reference.mean.size(); ++i) {
    EXPECT_NEAR(prediction.mean[i], reference.mean[i], 2e-3);
    EXPECT_NEAR(prediction.deviation[i], reference.deviation[i], 2e-3);
  }
}

TEST(CandidatePosterior, AddingTrialByTrialEqualsTheTextbookFormulas) {
  const Eigen::MatrixXf points = random_points(40, 1), candidates = random_points(25, 2);
  const Eigen::VectorXd targets = points.cast<double>().rowwise().sum().array().sin();
  CandidatePosterior posterior(parameters(), kGroups, candidates, 2);
  for (Eigen::Index i = 0; i < points.rows(); ++i) posterior.add_trial(points.row(i));
  expect_equal(posterior.predict(targets), Reference(points, targets, candidates));
}

TEST(CandidatePosterior, ForgetsTheLatestTrials) {
  const Eigen::MatrixXf points = random_points(20, 3), candidates = random_points(10, 4);
  const Eigen::VectorXd targets = points.col(0).cast<double>();
  CandidatePosterior posterior(parameters(), kGroups, candidates, 2);
  for (Eigen::Index i = 0; i < 12; ++i) posterior.add_trial(points.row(i));
  for (Eigen::Index i = 12; i < 20; ++i) posterior.add_trial(points.row(i));
  posterior.shrink(12);
  expect_equal(posterior.predict(targets.head(12)),
               Reference(points.topRows(12), targets.head(12), candidates));
}

TEST(CandidatePosterior, SmoothsLabelsByTheKernelHoweverTheTrialsCame) {
  const Eigen::MatrixXf points = random_points(12, 1), candidates = random_points(20, 2),
                        more = random_points(5, 3);
  const Eigen::VectorXf labels = Eigen::VectorXf::LinSpaced(12, -1, 2);
  constexpr float kPrior = 0.5f;
  CandidatePosterior posterior(parameters(), kGroups, candidates, 2);
  Eigen::MatrixXf all = candidates;
  const auto expect_smooth = [&](Eigen::Index known) {
    const Eigen::ArrayXf smoothed = posterior.smooth(labels.head(known), kPrior);
    ASSERT_EQ(smoothed.size(), all.rows());
    for (Eigen::Index i = 0; i < all.rows(); ++i) {
      double weights = 1, sum = kPrior;
      for (Eigen::Index j = 0; j < known; ++j) {
        const double weight = kernel(all.row(i), points.row(j));
        weights += weight;
        sum += weight * labels[j];
      }
      EXPECT_NEAR(smoothed[i], sum / weights, 1e-4);
    }
  };
  for (int i = 0; i < 6; ++i) posterior.add_trial(points.row(i));
  expect_smooth(4);  // two are pending
  expect_smooth(6);
  posterior.shrink(5);
  for (int i = 5; i < 9; ++i) posterior.add_trial(points.row(i));
  expect_smooth(9);
  posterior.add_candidates(more);
  all.conservativeResize(25, Eigen::NoChange);
  all.bottomRows(5) = more;
  expect_smooth(9);
  for (int i = 9; i < 12; ++i) posterior.add_trial(points.row(i));
  expect_smooth(12);
  expect_smooth(3);
}

TEST(FitParameters, FindsWhichKnobMatters) {
  const Eigen::MatrixXf points = random_points(60, 5);
  const Eigen::VectorXd targets = (6 * points.col(1).cast<double>().array()).sin();
  const KernelParameters fitted = fit_parameters(points, targets, kGroups, prior_parameters(kDimensions));
  EXPECT_LT(fitted.log_lengths[1] + 1, fitted.log_lengths[0]);
  EXPECT_LT(fitted.log_lengths[1] + 1, fitted.log_lengths[2]);
}

TEST(FitParameters, TakesEqualTargetsAndRepeatedPoints) {
  const Eigen::MatrixXf points = random_points(1, 6).replicate(10, 1);
  const KernelParameters fitted =
      fit_parameters(points, Eigen::VectorXd::Zero(10), kGroups, prior_parameters(kDimensions));
  EXPECT_TRUE(fitted.log_lengths.allFinite());
  EXPECT_TRUE(std::isfinite(fitted.log_noise));
}

}  // namespace
}  // namespace knobwise
