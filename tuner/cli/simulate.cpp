#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"
#include "tuner/simulation/replay.h"
#include "tuner/strategies/strategy.h"

namespace knobwise::cli {
namespace {

namespace po = boost::program_options;

const std::string& required(const Variables& variables, const char* name) {
  if (!variables.count(name))
    throw UserError(fmt::format("--{} is missing; see 'knobwise simulate --help'", name));
  return variables[name].as<std::string>();
}

std::size_t positive(const Variables& variables, const char* name) {
  const std::int64_t value = variables[name].as<std::int64_t>();
  if (value < 1) throw UserError(fmt::format("--{}: give a number of at least 1", name));
  return static_cast<std::size_t>(value);
}

Options simulate_options() {
  std::string strategies;
  for (const auto& [name, explanation] : strategy_names())
    strategies += fmt::format("{} ({}); ", name, explanation);
  Options options;
  options.add_options()                                                                     //
      ("space", po::value<std::string>()->value_name("FILE"), "the search space, T1 JSON")  //
      ("recorded", po::value<std::string>()->value_name("FILE"),
       "its recorded trials, T4 JSON, may be compressed by gzip")  //
      ("strategy", po::value<std::string>()->default_value("auto")->value_name("NAME"),
       (strategies + "or all").c_str())  //
      ("max-trials", po::value<std::int64_t>()->default_value(200)->value_name("N"),
       "unique evaluations of one search, failures included")  //
      ("repeats", po::value<std::int64_t>()->default_value(100)->value_name("R"),
       "searches, with seeds 0 to R-1");
  add_json(options);
  return options;
}

nlohmann::ordered_json to_json(const Simulation& simulation, const Recording& recording) {
  return {{"strategy", simulation.strategy},
          {"recording", simulation.recording},
          {"configurations", recording.times.size()},
          {"failures", recording.failures},
          {"unrecorded", recording.unrecorded},
          {"foreign", recording.foreign},
          {"repeats", simulation.repeats},
          {"optimum", simulation.random.optimum},
          {"median", simulation.random.median},
          {"score", simulation.score.mean},
          {"score_standard_error", simulation.score.standard_error},
          {"failed_share", simulation.failed_share},
          {"seconds_per_trial", simulation.seconds_per_trial},
          {"random_curve", simulation.random.expected},
          {"mean_curve", simulation.mean_curve},
          {"median_curve", simulation.median_curve}};
}

void describe(const Recording& recording) {
  std::cout << fmt::format("{}: {} configurations, {} failed", recording.source, recording.times.size(),
                           recording.failures);
  if (recording.unrecorded > 0)
    std::cout << fmt::format(", {} not recorded, which count as failed", recording.unrecorded);
  if (recording.foreign > 0)
    std::cout << fmt::format(", {} recorded outside the space, left out", recording.foreign);
  std::cout << "\n";
}

// The best so far over the optimum after 1, 2, 5, 10, ... trials, and after the last.
void print(const Simulation& simulation) {
  std::cout << fmt::format("\n{}: S {:.3f} ± {:.3f}, {:.1f}% failed, {:.3f} ms a trial\n",
                           simulation.strategy, simulation.score.mean, simulation.score.standard_error,
                           100 * simulation.failed_share, 1e3 * simulation.seconds_per_trial);
  std::cout << fmt::format("  {:>6}  {:>12}  {:>12}  {:>12}\n", "trials", "median/best", "mean/best",
                           "random/best");
  const std::size_t last = simulation.mean_curve.size();
  std::size_t next = 1;
  for (std::size_t t = 1; t <= last; ++t) {
    if (t != next && t != last) continue;
    const double optimum = simulation.random.optimum;
    std::cout << fmt::format("  {:>6}  {:>12.3f}  {:>12.3f}  {:>12.3f}\n", t,
                             simulation.median_curve[t - 1] / optimum, simulation.mean_curve[t - 1] / optimum,
                             simulation.random.expected[t - 1] / optimum);
    if (t == next) next = std::to_string(next).front() == '2' ? next / 2 * 5 : next * 2;
  }
}

}  // namespace

int simulate(const std::vector<std::string>& arguments) {
  const auto variables =
      parse(arguments,
            {"simulate --space FILE --recorded FILE [OPTIONS]",
             "Replays searches on a recorded space, without a device, and compares them with random search.\n"
             "S averages (random(t) - found(t)) / (random(t) - optimum) over t = 1 .. N trials: 0 is random\n"
             "search, 1 finds the optimum at once.",
             "  knobwise simulate --space conv.T1.json --recorded conv.A100.T4.json.gz --strategy all\n"},
            simulate_options());
  if (!variables) return kSuccess;
  const std::string strategy = (*variables)["strategy"].as<std::string>();
  const std::size_t asked = positive(*variables, "max-trials"), repeats = positive(*variables, "repeats");
  const BoundSpace space = SearchSpace::load(required(*variables, "space")).bind();
  space.require_configurations();
  const std::size_t max_trials = std::min<std::size_t>(asked, space.size());
  const Recording recording = load_recording(required(*variables, "recorded"), space);
  std::vector<std::string> strategies{strategy};
  if (strategy == "all") {
    strategies.clear();
    for (const auto& [name, explanation] : strategy_names()) strategies.push_back(name);
  }
  const bool json = variables->count("json") > 0;
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  if (!json) describe(recording);
  for (const std::string& name : strategies) {
    const Simulation simulation = knobwise::simulate(space, recording, name, max_trials, repeats);
    json ? document.push_back(to_json(simulation, recording)) : print(simulation);
  }
  if (json) print_json(strategy == "all" ? document : document.front());
  return kSuccess;
}

}  // namespace knobwise::cli
