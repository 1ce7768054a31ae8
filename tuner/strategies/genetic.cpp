#include "tuner/strategies/genetic.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kDraws = 20;  // random configurations, the fastest of which are the first population
constexpr std::size_t kPopulation = 10;

}  // namespace

const Genetic::Member& Genetic::tournament(const std::vector<Member>& population) {
  const Member& first = population[below(population.size())];
  const Member& second = population[below(population.size())];
  return second.time < first.time ? second : first;
}

ScriptedStrategy::Script Genetic::search() {
  const std::vector<std::uint64_t> first = random_indices(kDraws);
  const std::vector<double> times = co_await evaluate(first);
  std::vector<Member> population;
  for (std::size_t i = 0; i < first.size(); ++i) population.push_back({first[i], times[i]});
  const auto faster = [](const Member& a, const Member& b) { return a.time < b.time; };
  std::stable_sort(population.begin(), population.end(), faster);
  population.resize(kPopulation);
  while (true) {
    const std::uint64_t mother = tournament(population).index;
    const std::uint64_t child = mix(mother, tournament(population).index);
    const bool is_new = book().open(child);
    const double time = (co_await evaluate(child)).front();
    const auto slowest = std::max_element(population.begin(), population.end(), faster);
    if (is_new && time < slowest->time) *slowest = {child, time};
  }
}

}  // namespace knobwise
