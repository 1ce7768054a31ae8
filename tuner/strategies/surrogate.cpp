#include "tuner/strategies/surrogate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace knobwise {
namespace {

constexpr std::size_t kMaximumTrials = 400;  // that a rebuilt model keeps: its cost grows with them
constexpr std::size_t kLeastNew = 4;         // results between fits
constexpr std::size_t kMostNew = 100;
constexpr std::size_t kCentres = 5;  // fastest trials whose neighbours are candidates in a large space

/// Standardised log times, those above the (upper) median and failures as the median; `times` of known
/// trials.
Eigen::VectorXd targets_of(const std::vector<double>& times) {
  std::vector<double> successes;
  for (double time : times) {
    if (std::isfinite(time)) successes.push_back(std::log(time));
  }
  const auto middle = successes.begin() + static_cast<std::ptrdiff_t>(successes.size() / 2);
  std::nth_element(successes.begin(), middle, successes.end());
  const double cap = *middle;
  double mean = 0, squares = 0;
  for (double& y : successes) mean += (y = std::min(y, cap)) / static_cast<double>(successes.size());
  for (double y : successes) squares += (y - mean) * (y - mean) / static_cast<double>(successes.size());
  const double deviation = squares > 0 ? std::sqrt(squares) : 1;
  Eigen::VectorXd targets(static_cast<Eigen::Index>(times.size()));
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double y = std::isfinite(times[i]) ? std::min(std::log(times[i]), cap) : cap;
    targets[static_cast<Eigen::Index>(i)] = (y - mean) / deviation;
  }
  return targets;
}

std::vector<std::uint64_t> by_time(const TrialBook& book, bool successes_only) {
  std::vector<Observation> sorted = book.results();
  if (successes_only) std::erase_if(sorted, [](const Observation& one) { return !one.succeeded(); });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Observation& a, const Observation& b) { return a.time_us < b.time_us; });
  std::vector<std::uint64_t> indices;
  for (const Observation& one : sorted) indices.push_back(one.index);
  return indices;
}

/// Keeps the first half of `count` and random ones of the rest.
void thin(std::vector<std::uint64_t>& sorted, std::size_t count, std::mt19937_64& random) {
  if (sorted.size() <= count) return;
  for (std::size_t i = count / 2; i < count; ++i)
    std::swap(sorted[i], sorted[i + static_cast<std::size_t>(random() % (sorted.size() - i))]);
  sorted.resize(count);
}

std::vector<double> times_of(const std::vector<std::uint64_t>& indices, const TrialBook& book) {
  std::vector<double> times;
  for (std::uint64_t index : indices) times.push_back(*book.time(index));
  return times;
}

float expected_improvement(float best, float mean, float deviation) {
  const float z = (best - mean) / deviation;
  const float below = 0.5f * std::erfc(-z * 0.70710678f), density = 0.39894228f * std::exp(-0.5f * z * z);
  return deviation * std::max(z * below + density, 0.0f);
}

}  // namespace

Surrogate::Surrogate(const BoundSpace& space, SurrogateEffort effort, std::uint64_t seed)
    : space_(space),
      encoding_(space),
      effort_(effort),
      random_(seed),
      parameters_(prior_parameters(encoding_.features())) {}

void Surrogate::update(const TrialBook& book) {
  const std::size_t results = book.results().size();
  if (results >= next_fit_) {
    rebuild(book);
    const auto grown = static_cast<std::size_t>(static_cast<double>(results) * effort_.growth);
    next_fit_ = std::clamp(grown, results + kLeastNew, results + kMostNew);
  }
  add_rows(book.pending(), book);
  predict(book);
}

void Surrogate::rebuild(const TrialBook& book) {
  const std::vector<std::uint64_t> fastest = by_time(book, true);
  std::vector<std::uint64_t> fitted = fastest;
  thin(fitted, effort_.fitted, random_);
  parameters_ = fit_parameters(encoding_.encode(fitted), targets_of(times_of(fitted, book)),
                               encoding_.feature_of(), parameters_);
  choose_candidates(fastest, book);
  rows_ = by_time(book, false);
  thin(rows_, kMaximumTrials, random_);
  posterior_.emplace(parameters_, encoding_.feature_of(), encoding_.encode(candidates_),
                     rows_.size() + kMostNew);
  for (std::uint64_t index : rows_) posterior_->add_trial(encoding_.encode(index));
  known_rows_ = rows_.size();
  learnt_ = book.results().size();
}

void Surrogate::choose_candidates(const std::vector<std::uint64_t>& fastest, const TrialBook& book) {
  if (space_.size() <= 2 * effort_.candidates) {
    candidates_.resize(space_.size());
    std::iota(candidates_.begin(), candidates_.end(), 0);
  } else {
    candidates_ = space_.sample(effort_.candidates / 2, random_);
    for (std::size_t i = 0; i < std::min(kCentres, fastest.size()); ++i) {
      const auto near = space_.neighbours(fastest[i], Neighbourhood::hamming);
      candidates_.insert(candidates_.end(), near.begin(), near.end());
    }
    std::sort(candidates_.begin(), candidates_.end());
    candidates_.erase(std::unique(candidates_.begin(), candidates_.end()), candidates_.end());
  }
  std::erase_if(candidates_, [&](std::uint64_t index) { return !book.open(index); });
  candidate_of_.clear();
  for (std::size_t i = 0; i < candidates_.size(); ++i) candidate_of_[candidates_[i]] = i;
}

// Pending trials stand behind the known ones, so that they can be taken off when their results come.
void Surrogate::add_rows(const std::vector<std::uint64_t>& pending, const TrialBook& book) {
  posterior_->shrink(known_rows_);
  rows_.resize(known_rows_);
  for (; learnt_ < book.results().size(); ++learnt_) rows_.push_back(book.results()[learnt_].index);
  known_rows_ = rows_.size();
  rows_.insert(rows_.end(), pending.begin(), pending.end());
  for (std::size_t i = posterior_->trials(); i < rows_.size(); ++i)
    posterior_->add_trial(encoding_.encode(rows_[i]));
}

void Surrogate::predict(const TrialBook& book) {
  const std::vector<double> times =
      times_of({rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(known_rows_)}, book);
  const Eigen::VectorXd targets = targets_of(times);
  const CandidatePosterior::Prediction prediction = posterior_->predict(targets);
  const auto best = static_cast<float>(targets.minCoeff());
  value_.resize(prediction.mean.size());
  for (Eigen::Index i = 0; i < value_.size(); ++i)
    value_[i] = expected_improvement(best, prediction.mean[i], prediction.deviation[i]);
  if (std::all_of(times.begin(), times.end(), [](double time) { return std::isfinite(time); })) return;
  Eigen::VectorXf succeeded(static_cast<Eigen::Index>(times.size()));
  for (std::size_t i = 0; i < times.size(); ++i)
    succeeded[static_cast<Eigen::Index>(i)] = std::isfinite(times[i]) ? 1 : 0;
  value_ *= posterior_->smooth(succeeded, succeeded.mean());
}

std::optional<std::uint64_t> Surrogate::best_candidate(const TrialBook& book) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    if ((!best || value_[at] > value_[static_cast<Eigen::Index>(*best)]) && book.open(candidates_[i]))
      best = i;
  }
  return best ? std::optional(candidates_[*best]) : std::nullopt;
}

std::optional<std::uint64_t> Surrogate::best_of(const std::vector<std::uint64_t>& indices,
                                                const TrialBook& book) {
  std::vector<std::uint64_t> fresh;
  for (std::uint64_t index : indices) {
    if (book.open(index) && !candidate_of_.contains(index)) fresh.push_back(index);
  }
  if (!fresh.empty()) {
    for (std::uint64_t index : fresh) {
      candidate_of_[index] = candidates_.size();
      candidates_.push_back(index);
    }
    posterior_->add_candidates(encoding_.encode(fresh));
    predict(book);
  }
  std::optional<std::uint64_t> best;
  float best_value = 0;
  for (std::uint64_t index : indices) {
    if (!book.open(index)) continue;
    const float value = value_[static_cast<Eigen::Index>(candidate_of_.at(index))];
    if (!best || value > best_value) best = index, best_value = value;
  }
  return best;
}

}  // namespace knobwise
