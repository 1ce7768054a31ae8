#include "tuner/simulation/replay.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "tuner/strategies/strategy.h"

namespace knobwise {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

Replay replay(const BoundSpace& space, const Recording& recording, const std::string& strategy_name,
              std::uint64_t seed, std::size_t max_trials) {
  Replay result;
  double best = std::numeric_limits<double>::infinity();
  const double start = processor_seconds();
  const auto strategy = make_strategy(strategy_name, space, seed);
  while (result.trials < max_trials) {
    const std::vector<std::uint64_t> proposals = strategy->ask(1);
    if (proposals.empty()) break;
    const Observation observation{proposals.front(), recording.times.at(proposals.front())};
    ++result.trials;
    result.failures += observation.succeeded() ? 0 : 1;
    best = std::min(best, observation.time_us);
    result.curve.push_back(best);
    strategy->tell(observation);
  }
  result.seconds = processor_seconds() - start;
  result.curve.resize(max_trials, best);
  return result;
}

Simulation simulate(const BoundSpace& space, const Recording& recording, const std::string& strategy,
                    std::size_t max_trials, std::size_t repeats) {
  Simulation result;
  result.strategy = strategy;
  result.recording = recording.source;
  result.repeats = repeats;
  result.random = random_search(recording.times, max_trials);
  std::vector<std::vector<double>> reached(max_trials);
  std::vector<double> scores;
  double trials = 0, failures = 0, seconds = 0;
  for (std::uint64_t seed = 0; seed < repeats; ++seed) {
    const Replay one = replay(space, recording, strategy, seed, max_trials);
    scores.push_back(score(one.curve, result.random));
    for (std::size_t t = 0; t < max_trials; ++t)
      reached[t].push_back(std::isfinite(one.curve[t]) ? one.curve[t] : result.random.median);
    trials += static_cast<double>(one.trials);
    failures += static_cast<double>(one.failures);
    seconds += one.seconds;
  }
  for (const std::vector<double>& at : reached) {
    result.mean_curve.push_back(estimate(at).mean);
    result.median_curve.push_back(median(at));
  }
  result.score = estimate(scores);
  result.failed_share = failures / trials;
  result.seconds_per_trial = seconds / trials;
  return result;
}

}  // namespace knobwise
