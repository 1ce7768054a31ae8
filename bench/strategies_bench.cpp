// Compares strategies on recorded spaces, and on random ones: best-so-far, score and overhead.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "bench/random_recordings.h"
#include "search_spaces/space.h"
#include "search_spaces/user_error.h"
#include "tuner/simulation/replay.h"
#include "tuner/strategies/strategy.h"

namespace {

using namespace knobwise;

constexpr std::size_t kTrials = 200;
constexpr std::size_t kMarks[] = {25, 50, 100, 200};
constexpr std::size_t kRandomRecordings = 16;  // of each random space
constexpr std::uint64_t kRandomSeed = 1;

struct Case {
  const char* space;
  const char* recording;
};
constexpr Case kCases[] = {
    {"convolution_milo.T1.json", "convolution_milo.A100.T4.json.gz"},
    {"convolution_milo.T1.json", "convolution_milo.A4000.T4.json.gz"},
    {"convolution_milo.T1.json", "convolution_milo.MI250X.T4.json.gz"},
    {"convolution.T1.json", "convolution.RTX_2080_Ti.T4.json.gz"},
};

void compare(const std::string& folder, const std::vector<std::string>& strategies, std::size_t repeats) {
  std::vector<BoundSpace> spaces;
  std::vector<Recording> recordings;
  for (const Case& one : kCases) {
    spaces.push_back(SearchSpace::load(folder + "/" + one.space).bind());
    recordings.push_back(load_recording(folder + "/" + one.recording, spaces.back()));
  }
  for (const std::string& strategy : strategies) {
    fmt::print("| {} |", strategy);
    double sum = 0, squares = 0;
    double ratio[4] = {1, 1, 1, 1};
    for (std::size_t c = 0; c < spaces.size(); ++c) {
      const Simulation result = simulate(spaces[c], recordings[c], strategy, kTrials, repeats);
      for (std::size_t m = 0; m < 4; ++m) {
        const double to_optimum = result.median_curve[kMarks[m] - 1] / result.random.optimum;
        fmt::print("{}{:.3f}", m == 0 ? " " : "/", to_optimum);
        if (c < 3) ratio[m] *= std::cbrt(to_optimum);
      }
      fmt::print(" ({:.2f}±{:.2f}) {:.2f} ms |", result.score.mean, result.score.standard_error,
                 1e3 * result.seconds_per_trial);
      if (c < 3) sum += result.score.mean / 3;
      if (c < 3) squares += result.score.standard_error * result.score.standard_error / 9;
      std::cout.flush();
    }
    fmt::print(" {:.3f}±{:.3f} | {:.3f}/{:.3f}/{:.3f}/{:.4f} |\n", sum, std::sqrt(squares), ratio[0],
               ratio[1], ratio[2], ratio[3]);
    std::cout.flush();
  }
}

// Scores for each space, and the geometric means of best / optimum.
void compare_on_random(const std::vector<std::string>& strategies, std::size_t repeats) {
  const auto spaces = random_recordings(kRandomRecordings, kRandomSeed);
  for (const std::string& strategy : strategies) {
    fmt::print("| {} |", strategy);
    double logarithm[4] = {0, 0, 0, 0};
    for (const auto& [space, recordings] : spaces) {
      std::vector<double> scores;
      for (const Recording& recording : recordings) {
        const Simulation result = simulate(space, recording, strategy, kTrials, repeats);
        scores.push_back(result.score.mean);
        for (std::size_t m = 0; m < 4; ++m)
          logarithm[m] += std::log(result.median_curve[kMarks[m] - 1] / result.random.optimum);
      }
      const Estimate score = estimate(scores);
      fmt::print(" {:.2f}±{:.2f} |", score.mean, score.standard_error);
      std::cout.flush();
    }
    for (std::size_t m = 0; m < 4; ++m) {
      const auto count = static_cast<double>(kRandomRecordings * spaces.size());
      fmt::print("{}{:.3f}", m == 0 ? " " : "/", std::exp(logarithm[m] / count));
    }
    fmt::print(" |\n");
    std::cout.flush();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string folder = argc > 1 ? argv[1] : "../shared/recorded_spaces";
    const std::size_t repeats = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100;
    std::vector<std::string> strategies(argv + std::min(argc, 3), argv + argc);
    if (strategies.empty()) {
      for (const auto& [name, explanation] : knobwise::strategy_names()) strategies.push_back(name);
    }
    if (folder == "random")
      compare_on_random(strategies, repeats);
    else
      compare(folder, strategies, repeats);
  } catch (const UserError& error) {
    std::cerr << "strategies_bench: " << error.what() << "\n";
    return 2;
  }
}
