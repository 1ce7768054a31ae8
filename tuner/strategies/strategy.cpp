#include "tuner/strategies/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "search_spaces/user_error.h"
#include "tuner/strategies/auto.h"
#include "tuner/strategies/bayes.h"
#include "tuner/strategies/differential_evolution.h"
#include "tuner/strategies/exhaustive.h"
#include "tuner/strategies/genetic.h"
#include "tuner/strategies/greedy_iterated_local_search.h"
#include "tuner/strategies/multi_start_local_search.h"
#include "tuner/strategies/particle_swarm.h"
#include "tuner/strategies/random.h"
#include "tuner/strategies/simulated_annealing.h"

namespace knobwise {
namespace {

using Maker = std::unique_ptr<Strategy> (*)(const BoundSpace& space, std::uint64_t seed);

struct Entry {
  const char* name;
  const char* explanation;
  Maker make;
};

template <class S>
std::unique_ptr<Strategy> make(const BoundSpace& space, std::uint64_t seed) {
  return std::make_unique<S>(space, seed);
}

constexpr Entry kStrategies[] = {
    {"auto", "Bayesian optimisation in turns with a local search that its model guides", make<AutoStrategy>},
    {"bayes", "Bayesian optimisation: a Gaussian process and its expected improvement", make<BayesStrategy>},
    {"genetic", "genetic algorithm, steady state", make<Genetic>},
    {"pso", "particle swarm optimisation", make<ParticleSwarm>},
    {"differential_evolution", "differential evolution", make<DifferentialEvolution>},
    {"simulated_annealing", "simulated annealing with reheating", make<SimulatedAnnealing>},
    {"greedy_ils", "greedy iterated local search", make<GreedyIteratedLocalSearch>},
    {"mls", "local search from many starts", make<MultiStartLocalSearch>},
    {"random", "uniform random sampling without replacement", make<RandomStrategy>},
    {"exhaustive", "every configuration, in order",
     [](const BoundSpace& space, std::uint64_t) -> std::unique_ptr<Strategy> {
       return std::make_unique<ExhaustiveStrategy>(space);
     }},
};

}  // namespace

const std::vector<std::pair<std::string, std::string>>& strategy_names() {
  static const std::vector<std::pair<std::string, std::string>> names = [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const Entry& entry : kStrategies) all.emplace_back(entry.name, entry.explanation);
    return all;
  }();
  return names;
}

std::unique_ptr<Strategy> make_strategy(std::string_view name, const BoundSpace& space, std::uint64_t seed) {
  for (const Entry& entry : kStrategies) {
    if (name == entry.name) return entry.make(space, seed);
  }
  std::string known;
  for (const Entry& entry : kStrategies) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw UserError(fmt::format("--strategy: there is no strategy '{}'; choose one of: {}", name, known));
}

}  // namespace knobwise
