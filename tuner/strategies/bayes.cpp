#include "tuner/strategies/bayes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace knobwise {
namespace {
double env(const char* n, double d) {
  const char* s = std::getenv(n);
  return s ? std::atof(s) : d;
}
const std::size_t kInitial = (std::size_t)env("KW_INIT", 10);
const int kTarget = (int)env("KW_TARGET", 0);
const double kFitGrowth = env("KW_GROWTH", 1.3);
const std::size_t kFitMax = (std::size_t)env("KW_FITMAX", 100);
const std::uint64_t kPool = (std::uint64_t)env("KW_POOL", 5000);
const double kXi = env("KW_XI", 0.0);
const double kFail = env("KW_FAIL", 1);
const int kDesign = (int)env("KW_DESIGN", 0);
const int kAcq = (int)env("KW_ACQ", 0);
}  // namespace

BayesStrategy::BayesStrategy(const BoundSpace& space, std::uint64_t seed)
    : space_(space),
      encoding_(space),
      book_(space, seed ^ 77),
      random_(seed),
      parameters_(prior_parameters(encoding_.knobs())) {}

void BayesStrategy::tell(const Observation& observation) {
  book_.record(observation);
}

Eigen::VectorXd BayesStrategy::targets() const {
  const auto& results = book_.results();
  std::vector<double> good;
  for (auto i : rows_)
    if (auto t = book_.time(i); t && std::isfinite(*t)) good.push_back(std::log(*t));
  std::sort(good.begin(), good.end());
  (void)results;
  const double n = good.size();
  auto quantile = [&](double q) { return good[std::min<std::size_t>(good.size() - 1, q * n)]; };
  double worst = good.back();
  if (kTarget == 2) worst = std::min(worst, quantile(0.5) + (quantile(0.5) - good.front()));
  if (kTarget == 3) worst = std::min(worst, quantile(0.5));
  if (kTarget == 4) worst = std::min(worst, quantile(0.75));
  auto transform = [&](double y) {
    if (kTarget == 1) {
      const double rank = (std::lower_bound(good.begin(), good.end(), y) - good.begin() +
                           std::upper_bound(good.begin(), good.end(), y) - good.begin()) *
                          0.5;
      const double p = rank / n;
      return std::log(p / (1 - p));  // logit
    }
    if (kTarget == 5) {  // log of shifted
      return std::log(std::exp(y - good.front()) - 1 + 0.05);
    }
    return std::min(y, worst);
  };
  std::vector<double> values;
  for (double y : good) values.push_back(transform(y));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double var = 0;
  for (double v : values) var += (v - mean) * (v - mean) / n;
  const double sd = std::max(std::sqrt(var), 1e-9);
  Eigen::VectorXd result(rows_.size());
  const double top = *std::max_element(values.begin(), values.end());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    auto t = book_.time(rows_[i]);
    double v = t && std::isfinite(*t) ? transform(std::log(*t)) : mean + kFail * (top - mean);
    result[i] = (v - mean) / sd;
  }
  return result;
}

void BayesStrategy::rebuild() {
  // fit
  std::vector<std::uint64_t> successes;
  for (const auto& r : book_.results())
    if (r.succeeded()) successes.push_back(r.index);
  std::stable_sort(successes.begin(), successes.end(),
                   [&](auto a, auto b) { return *book_.time(a) < *book_.time(b); });
  while (successes.size() > kFitMax) {
    successes.erase(successes.begin() + kFitMax / 2 + random_() % (successes.size() - kFitMax / 2));
  }
  rows_ = successes;
  Eigen::MatrixXf points(rows_.size(), encoding_.dimensions());
  for (std::size_t i = 0; i < rows_.size(); ++i) points.row(i) = encoding_.encode(rows_[i]);
  if (rows_.size() > 2) parameters_ = fit_parameters(points, targets(), encoding_.knob_of(), parameters_);
  if (std::getenv("KW_DEBUG"))
    fprintf(stderr, "n %zu len", rows_.size()), [&] {
      for (double l : parameters_.log_lengths) fprintf(stderr, " %.2f", std::exp(l));
      fprintf(stderr, " noise %.1e\n", std::exp(parameters_.log_noise));
    }();
  // candidates
  candidates_.clear();
  if (space_.size() <= kPool) {
    candidates_.resize(space_.size());
    std::iota(candidates_.begin(), candidates_.end(), 0);
  } else {
    candidates_ = space_.sample(kPool / 2, random_);
    std::size_t tops = 0;
    for (auto i : successes) {
      if (++tops > 5) break;
      for (auto n : space_.neighbours(i, Neighbourhood::hamming)) candidates_.push_back(n);
    }
    std::sort(candidates_.begin(), candidates_.end());
    candidates_.erase(std::unique(candidates_.begin(), candidates_.end()), candidates_.end());
  }
  std::erase_if(candidates_, [&](auto i) { return !book_.open(i); });
  candidate_of_.clear();
  for (std::size_t i = 0; i < candidates_.size(); ++i) candidate_of_[candidates_[i]] = i;
  Eigen::MatrixXf all(candidates_.size(), encoding_.dimensions());
  for (std::size_t i = 0; i < candidates_.size(); ++i) all.row(i) = encoding_.encode(candidates_[i]);
  posterior_.emplace(parameters_, encoding_.knob_of(), all);
  rows_.clear();
}

void BayesStrategy::update() {
  if (book_.results().size() >= next_fit_ || !posterior_) {
    rebuild();
    next_fit_ = std::max<std::size_t>(book_.results().size() + 3, book_.results().size() * kFitGrowth);
  }
  const std::size_t known = book_.results().size();
  std::vector<std::uint64_t> wanted;
  for (const auto& r : book_.results()) wanted.push_back(r.index);
  for (auto i : book_.pending()) wanted.push_back(i);
  (void)known;
  std::size_t same = 0;
  while (same < rows_.size() && same < wanted.size() && rows_[same] == wanted[same]) ++same;
  posterior_->shrink(same);
  for (std::size_t i = same; i < wanted.size(); ++i) posterior_->add_trial(encoding_.encode(wanted[i]));
  rows_ = wanted;
}

std::optional<std::uint64_t> BayesStrategy::next() {
  std::size_t successes = 0;
  for (const auto& r : book_.results()) successes += r.succeeded();
  if (book_.results().size() < kInitial || successes < 2) {
    if (kDesign == 1) {
      // farthest of a few random
      auto pool = space_.sample(50, random_);
      std::vector<Eigen::RowVectorXf> have;
      for (auto& r : book_.results()) have.push_back(encoding_.encode(r.index));
      double best = -1;
      std::uint64_t arg = pool[0];
      for (auto c : pool)
        if (book_.open(c)) {
          double d = 1e9;
          auto e = encoding_.encode(c);
          for (auto& h : have) d = std::min<double>(d, (h - e).squaredNorm());
          if (d > best) best = d, arg = c;
          if (have.empty()) break;
        }
      if (book_.open(arg)) return arg;
    }
    return book_.draw_open();
  }
  update();
  const Eigen::VectorXd y = targets();
  const auto p = posterior_->predict(y);
  double best = 1e9;
  Eigen::VectorXf labels(rows_.size());
  bool failures = false;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    auto t = book_.time(rows_[i]);
    labels[i] = !t || std::isfinite(*t);
    failures |= labels[i] == 0;
    if (t && std::isfinite(*t)) best = std::min(best, y[i]);
  }
  Eigen::ArrayXf feasible = Eigen::ArrayXf::Ones(candidates_.size());
  if (failures) feasible = posterior_->smooth(labels, labels.mean());
  double top = -1e30;
  std::size_t arg = candidates_.size();
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!book_.open(candidates_[i])) continue;
    const double s = p.deviation[i];
    const double z = (best - kXi - p.mean[i]) / s;
    double a;
    if (kAcq == 0) {
      const double ei = s * (z * 0.5 * std::erfc(-z * M_SQRT1_2) + 0.3989422804 * std::exp(-0.5 * z * z));
      a = ei * feasible[i];
    } else if (kAcq == 1) {
      a = -(p.mean[i] - 1.0 * s) + std::log(feasible[i]);
    } else {
      a = 0.5 * std::erfc(-z * M_SQRT1_2) * feasible[i];
    }
    if (a > top) top = a, arg = i;
  }
  if (arg == candidates_.size()) return book_.draw_open();
  return candidates_[arg];
}

std::vector<std::uint64_t> BayesStrategy::ask(std::size_t count) {
  std::vector<std::uint64_t> proposals;
  while (proposals.size() < count) {
    auto i = next();
    if (!i) break;
    book_.propose(*i);
    proposals.push_back(*i);
  }
  return proposals;
}

}  // namespace knobwise
