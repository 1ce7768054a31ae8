#include "tuner/simulation/score.h"

#include <algorithm>
#include <cmath>

namespace knobwise {

RandomSearch random_search(const std::vector<double>& times, std::size_t draws) {
  std::vector<double> sorted;
  std::copy_if(times.begin(), times.end(), std::back_inserter(sorted),
               [](double t) { return std::isfinite(t); });
  std::sort(sorted.begin(), sorted.end());
  RandomSearch random;
  random.optimum = sorted.front();
  random.median = median(sorted);
  sorted.resize(times.size(), random.median);
  const double size = static_cast<double>(sorted.size());
  for (std::size_t t = 1; t <= draws; ++t) {
    // The chance that none of the i fastest is among the draws, C(size - i, t) / C(size, t), step by step.
    double missed = 1, expected = 0;
    for (std::size_t i = 0; i < sorted.size() && missed > 0; ++i) {
      const double left = size - static_cast<double>(i);
      const double next = missed * std::max(left - static_cast<double>(t), 0.0) / left;
      expected += sorted[i] * (missed - next);
      missed = next;
    }
    random.expected.push_back(expected);
  }
  return random;
}

double score(const Curve& curve, const RandomSearch& random) {
  double sum = 0;
  std::size_t counted = 0;
  for (std::size_t t = 0; t < random.expected.size(); ++t) {
    const double room = random.expected[t] - random.optimum;
    if (room <= 1e-9 * random.optimum) continue;
    const double reached = std::isfinite(curve[t]) ? curve[t] : random.median;
    sum += (random.expected[t] - reached) / room;
    ++counted;
  }
  return counted > 0 ? sum / static_cast<double>(counted) : 0;
}

Estimate estimate(const std::vector<double>& samples) {
  const double count = static_cast<double>(samples.size());
  Estimate result;
  for (double sample : samples) result.mean += sample / count;
  if (samples.size() < 2) return result;
  double squares = 0;
  for (double sample : samples) squares += (sample - result.mean) * (sample - result.mean);
  result.standard_error = std::sqrt(squares / (count - 1) / count);
  return result;
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t middle = samples.size() / 2;
  if (samples.size() % 2 == 1 || samples[middle - 1] == samples[middle]) return samples[middle];
  return samples[middle - 1] / 2 + samples[middle] / 2;
}

}  // namespace knobwise
