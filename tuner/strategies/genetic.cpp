#include "tuner/strategies/genetic.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr std::size_t kPopulation = 20;
constexpr int kMutations = 50;  // tries to make a child new

}  // namespace

const Genetic::Member& Genetic::tournament(const std::vector<Member>& population) {
  const Member& first = population[below(population.size())];
  const Member& second = population[below(population.size())];
  return second.time < first.time ? second : first;
}

std::uint64_t Genetic::child_of(std::uint64_t mother, std::uint64_t father) {
  Positions genes = space().positions(mother);
  const Positions other = space().positions(father);
  const double rate = 1.0 / static_cast<double>(genes.size());
  for (std::size_t knob = 0; knob < genes.size(); ++knob) {
    if (uniform() < 0.5) genes[knob] = other[knob];
    if (uniform() < rate)
      genes[knob] = static_cast<std::uint32_t>(below(space().knobs()[knob].values.size()));
  }
  const auto valid = space().index_of(genes);
  std::uint64_t child = valid ? *valid : space().nearest(genes);
  for (int tries = 0; tries < kMutations && !book().open(child); ++tries) {
    const std::vector<std::uint64_t> neighbours = space().neighbours(child, Neighbourhood::hamming);
    child = neighbours.empty() ? random_index() : neighbours[below(neighbours.size())];
  }
  return child;
}

ScriptedStrategy::Script Genetic::search() {
  std::vector<std::uint64_t> first;
  for (std::size_t i = 0; i < kPopulation; ++i) first.push_back(random_index());
  const std::vector<double> times = co_await evaluate(first);
  std::vector<Member> population;
  for (std::size_t i = 0; i < first.size(); ++i) population.push_back({first[i], times[i]});
  while (true) {
    const std::uint64_t mother = tournament(population).index;
    const std::uint64_t child = child_of(mother, tournament(population).index);
    const double time = (co_await evaluate(child)).front();
    const auto worst = std::max_element(population.begin(), population.end(),
                                        [](const Member& a, const Member& b) { return a.time < b.time; });
    if (time < worst->time) *worst = {child, time};
  }
}

}  // namespace knobwise
