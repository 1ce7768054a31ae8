#include "tuner/strategies/genetic.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 20;  // random configurations, the fastest of which are the first population
constexpr std::size_t kPopulation = 10;
constexpr int kPatience = 50;  // children in a row, none the fastest, before a fresh population

}  // namespace

std::uint64_t Genetic::tournament(const std::vector<Observation>& population) {
  const Observation& first = population[below(population.size())];
  const Observation& second = population[below(population.size())];
  return faster(second, first) ? second.index : first.index;
}

ScriptedStrategy::Script Genetic::search() {
  while (true) {
    const std::vector<std::uint64_t> draws = random_indices(kDraws);
    const std::vector<double> times = co_await evaluate(draws);
    std::vector<Observation> population = fastest(draws, times, kPopulation);
    double best = population.front().time_us;
    for (int failed = 0; failed < kPatience; ++failed) {
      const std::uint64_t mother = tournament(population);
      const std::uint64_t child = mix(mother, tournament(population));
      const bool is_new = book().open(child);
      const double time = (co_await evaluate(child)).front();
      const auto slowest = std::max_element(population.begin(), population.end(), faster);
      if (is_new && time < slowest->time_us) *slowest = {child, time};
      if (time < best) best = time, failed = 0;
    }
  }
}

}  // namespace knobwise
