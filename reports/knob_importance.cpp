#include "reports/knob_importance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

namespace knobwise {
namespace {

constexpr std::size_t kFewestTrials = 12;
constexpr std::size_t kMostTrials = 3000;
constexpr int kTrees = 40;
constexpr int kMostDepth = 14;
constexpr std::size_t kLeaf = 3;

// The random numbers are drawn by hand: the standard distributions differ between libraries.
class Random {
 public:
  std::size_t below(std::size_t limit) { return engine_() % limit; }

 private:
  std::mt19937_64 engine_{20260131};
};

template <class Item>
void shuffle(std::vector<Item>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

// Features are ranks of values: trees ask only whether a value comes after another.
struct Samples {
  std::vector<std::string> names;
  std::vector<std::vector<std::int32_t>> features;  // [feature][sample]
  std::vector<double> target;                       // log time

  std::size_t size() const { return target.size(); }
};

Samples make_samples(const std::vector<TrialRecord>& trials, const std::vector<KnobColumn>& knobs) {
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].timing) rows.push_back(i);
  }
  if (rows.size() > kMostTrials) {
    std::vector<std::size_t> part;
    for (std::size_t i = 0; i < kMostTrials; ++i) part.push_back(rows[i * rows.size() / kMostTrials]);
    rows = std::move(part);
  }
  Samples samples;
  for (const std::size_t row : rows) samples.target.push_back(std::log(trials[row].timing->time_us));
  const auto add = [&](const std::string& name, const auto& value_of) {
    std::vector<std::int32_t> values;
    for (const std::size_t row : rows) values.push_back(value_of(row));
    if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) return;
    samples.names.push_back(name);
    samples.features.push_back(std::move(values));
  };
  add("kernel family", [&](std::size_t row) { return static_cast<std::int32_t>(trials[row].family); });
  for (const KnobColumn& knob : knobs) add(knob.name, [&](std::size_t row) { return knob.value_of[row]; });
  return samples;
}

class Tree {
 public:
  Tree(const Samples& samples, std::vector<std::size_t> rows, Random& random)
      : samples_(samples), random_(random) {
    grow(rows, 0, rows.size(), 0);
  }

  // `value_of(feature)` gives the sample's value.
  template <class ValueOf>
  double predict(const ValueOf& value_of) const {
    std::size_t node = 0;
    while (nodes_[node].feature >= 0) {
      node =
          value_of(nodes_[node].feature) <= nodes_[node].threshold ? nodes_[node].left : nodes_[node].right;
    }
    return nodes_[node].mean;
  }

 private:
  struct Node {
    int feature = -1;
    std::int32_t threshold = 0;
    std::size_t left = 0, right = 0;
    double mean = 0;
  };
  struct Split {
    int feature = -1;
    std::int32_t threshold = 0;
    double gain = 1e-12;
  };

  // The split of one feature with the largest drop of the squared error.
  void try_feature(int feature, std::vector<std::size_t>& rows, std::size_t first, std::size_t last,
                   double sum, Split& best) const {
    const std::vector<std::int32_t>& values = samples_.features[feature];
    std::sort(rows.begin() + first, rows.begin() + last, [&](std::size_t a, std::size_t b) {
      return std::make_pair(values[a], a) < std::make_pair(values[b], b);
    });
    const double count = static_cast<double>(last - first);
    double left_sum = 0;
    for (std::size_t i = first; i + 1 < last; ++i) {
      left_sum += samples_.target[rows[i]];
      if (values[rows[i]] == values[rows[i + 1]]) continue;
      const double left = static_cast<double>(i + 1 - first), right = count - left;
      if (left < kLeaf || right < kLeaf) continue;
      const double gain =
          left_sum * left_sum / left + (sum - left_sum) * (sum - left_sum) / right - sum * sum / count;
      if (gain > best.gain) best = {feature, values[rows[i]], gain};
    }
  }

  std::size_t grow(std::vector<std::size_t>& rows, std::size_t first, std::size_t last, int depth) {
    const std::size_t index = nodes_.size();
    nodes_.emplace_back();
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += samples_.target[rows[i]];
    nodes_[index].mean = sum / static_cast<double>(last - first);
    if (depth == kMostDepth || last - first < 2 * kLeaf) return index;

    std::vector<int> features(samples_.features.size());
    std::iota(features.begin(), features.end(), 0);
    shuffle(features, random_);
    features.resize((features.size() + 1) / 2);
    Split split;
    for (const int feature : features) try_feature(feature, rows, first, last, sum, split);
    if (split.feature < 0) return index;

    const std::vector<std::int32_t>& values = samples_.features[split.feature];
    const auto middle = std::partition(rows.begin() + first, rows.begin() + last,
                                       [&](std::size_t row) { return values[row] <= split.threshold; });
    const std::size_t cut = static_cast<std::size_t>(middle - rows.begin());
    const std::size_t left = grow(rows, first, cut, depth + 1);
    const std::size_t right = grow(rows, cut, last, depth + 1);
    nodes_[index] = {split.feature, split.threshold, left, right, nodes_[index].mean};
    return index;
  }

  const Samples& samples_;
  Random& random_;
  std::vector<Node> nodes_;
};

// Squared errors of the samples outside each tree's bag: as they are, and with each feature shuffled.
struct OutOfBag {
  std::vector<double> sum;       // of predictions, per sample
  std::vector<int> votes;        // per sample
  double error = 0, count = 0;   // over trees and samples
  std::vector<double> shuffled;  // per feature, over trees and samples
};

void judge(const Tree& tree, const Samples& samples, std::vector<std::size_t> left_out, Random& random,
           OutOfBag& out) {
  const auto squared = [&](double prediction, std::size_t row) {
    const double error = prediction - samples.target[row];
    return error * error;
  };
  for (const std::size_t row : left_out) {
    const double prediction = tree.predict([&](int feature) { return samples.features[feature][row]; });
    out.sum[row] += prediction;
    out.votes[row] += 1;
    out.error += squared(prediction, row);
    out.count += 1;
  }
  std::vector<std::size_t> other = left_out;
  for (std::size_t shuffled = 0; shuffled < samples.features.size(); ++shuffled) {
    shuffle(other, random);
    for (std::size_t i = 0; i < left_out.size(); ++i) {
      const double prediction = tree.predict([&](int feature) {
        return samples
            .features[feature][static_cast<std::size_t>(feature) == shuffled ? other[i] : left_out[i]];
      });
      out.shuffled[shuffled] += squared(prediction, left_out[i]);
    }
  }
}

double variance(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size());
}

double explained_share(const Samples& samples, const OutOfBag& out, double spread) {
  double error = 0, count = 0;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    if (out.votes[row] == 0) continue;
    const double difference = out.sum[row] / out.votes[row] - samples.target[row];
    error += difference * difference;
    count += 1;
  }
  return count > 0 ? 1 - error / count / spread : 0;
}

}  // namespace

KnobImportance knob_importance(const std::vector<TrialRecord>& trials, const std::vector<KnobColumn>& knobs) {
  const Samples samples = make_samples(trials, knobs);
  if (samples.size() < kFewestTrials || samples.features.empty()) return {};
  const double spread = variance(samples.target);
  constexpr double kRounding = 1e-12;
  if (spread <= kRounding) return {};

  Random random;
  OutOfBag out{std::vector<double>(samples.size()), std::vector<int>(samples.size()), 0, 0,
               std::vector<double>(samples.features.size())};
  for (int i = 0; i < kTrees; ++i) {
    std::vector<std::size_t> bag, left_out;
    std::vector<bool> drawn(samples.size());
    for (std::size_t n = 0; n < samples.size(); ++n) {
      bag.push_back(random.below(samples.size()));
      drawn[bag.back()] = true;
    }
    for (std::size_t row = 0; row < samples.size(); ++row) {
      if (!drawn[row]) left_out.push_back(row);
    }
    judge(Tree(samples, std::move(bag), random), samples, std::move(left_out), random, out);
  }

  KnobImportance result{samples.size(), explained_share(samples, out, spread), {}};
  for (std::size_t feature = 0; feature < samples.features.size(); ++feature) {
    const double rise = out.count > 0 ? (out.shuffled[feature] - out.error) / out.count / spread : 0;
    result.features.push_back({samples.names[feature], std::max(0.0, rise)});
  }
  std::stable_sort(result.features.begin(), result.features.end(),
                   [](const auto& a, const auto& b) { return a.importance > b.importance; });
  return result;
}

}  // namespace knobwise
