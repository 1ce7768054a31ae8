// How long search spaces take to construct and to use, on one core.
//
// Construction is SearchSpace::bind(): evaluating the lists of values, compiling the constraints, solving
// them. Reading the JSON text is measured apart.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "search_spaces/space.h"

namespace knobwise {
namespace {

constexpr const char* kRecorded = "../shared/recorded_spaces/convolution_milo.T1.json";

KnobDeclaration knob(const std::string& name, const std::string& values) {
  KnobDeclaration declaration;
  declaration.name = name;
  declaration.values = {Expression::parse(values)};
  return declaration;
}

SearchSpace space_of(const std::string& name, const std::vector<KnobDeclaration>& knobs,
                     const std::vector<std::string>& conditions) {
  std::vector<Constraint> constraints;
  for (const std::string& condition : conditions) constraints.push_back({Expression::parse(condition), ""});
  return SearchSpace(name, knobs, constraints);
}

// The shape of the published dedispersion space: two products of block sizes, tiles that depend on strides,
// an unrolling factor that divides.
SearchSpace dedispersion_like() {
  return space_of("dedispersion-like",
                  {knob("block_size_x", "[1, 2, 4, 8] + [16 * i for i in range(1, 33)]"),
                   knob("block_size_y", "[8 * i for i in range(4, 33)]"), knob("block_size_z", "[1]"),
                   knob("tile_size_x", "range(1, 5)"), knob("tile_size_y", "range(1, 9)"),
                   knob("tile_stride_x", "[0, 1]"), knob("tile_stride_y", "[0, 1]"),
                   knob("loop_unroll_factor_channel", "[0]")},
                  {"32 <= block_size_x * block_size_y <= 1024", "tile_size_x > 1 or tile_stride_x == 0",
                   "tile_size_y > 1 or tile_stride_y == 0"});
}

// 8 knobs of 10 values, each chained to the next: 10^8 combinations.
SearchSpace chained() {
  std::vector<KnobDeclaration> knobs;
  std::vector<std::string> conditions;
  for (int i = 0; i < 8; ++i) knobs.push_back(knob(fmt::format("k{}", i), "range(1, 11)"));
  for (int i = 0; i + 1 < 8; ++i) conditions.push_back(fmt::format("k{} <= k{} + 2", i, i + 1));
  for (int i = 0; i + 2 < 8; ++i) {
    conditions.push_back(fmt::format("4 <= k{} * k{} <= 45 + k{}", i, i + 2, i + 1));
  }
  conditions.push_back("(k0 + k3 + k6) % 3 == 0");
  return space_of("chained", knobs, conditions);
}

// The same size of product, with a constraint over all knobs.
SearchSpace coupled() {
  std::vector<KnobDeclaration> knobs;
  for (int i = 0; i < 8; ++i) knobs.push_back(knob(fmt::format("k{}", i), "range(1, 11)"));
  return space_of("coupled", knobs,
                  {"k0 * k1 <= 12", "k2 * k3 <= 12", "k1 <= k2 <= k4", "k4 * k5 <= 20", "k6 * k7 <= 20",
                   "k0 * k2 * k4 * k6 + k1 * k3 * k5 * k7 <= 250"});
}

void report(benchmark::State& state, const BoundSpace& space) {
  double product = 1;
  for (const Knob& knob : space.knobs()) product *= static_cast<double>(knob.values.size());
  state.counters["valid"] = static_cast<double>(space.size());
  state.counters["product"] = product;
}

void construct(benchmark::State& state, const SearchSpace& space) {
  for (auto _ : state) benchmark::DoNotOptimize(space.bind().size());
  report(state, space.bind());
}

void construct_recorded(benchmark::State& state) {
  if (!std::filesystem::exists(kRecorded)) return state.SkipWithError("the recorded space is absent");
  construct(state, SearchSpace::load(kRecorded));
}
BENCHMARK(construct_recorded)->Unit(benchmark::kMicrosecond);

void parse_recorded(benchmark::State& state) {
  std::ifstream file(kRecorded);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.empty()) return state.SkipWithError("the recorded space is absent");
  for (auto _ : state) benchmark::DoNotOptimize(SearchSpace::parse(text, kRecorded).knobs().size());
}
BENCHMARK(parse_recorded)->Unit(benchmark::kMicrosecond);

void construct_dedispersion_like(benchmark::State& state) {
  construct(state, dedispersion_like());
}
BENCHMARK(construct_dedispersion_like)->Unit(benchmark::kMicrosecond);

void construct_chained(benchmark::State& state) {
  construct(state, chained());
}
BENCHMARK(construct_chained)->Unit(benchmark::kMicrosecond);

void construct_coupled(benchmark::State& state) {
  construct(state, coupled());
}
BENCHMARK(construct_coupled)->Unit(benchmark::kMicrosecond);

void use_positions(benchmark::State& state) {
  const BoundSpace space = chained().bind();
  std::mt19937_64 random(1);
  for (auto _ : state) benchmark::DoNotOptimize(space.positions(space.sample(random)));
}
BENCHMARK(use_positions);

void use_index_of_configuration(benchmark::State& state) {
  const BoundSpace space = chained().bind();
  const Configuration configuration = space.configuration(space.size() / 2);
  for (auto _ : state) benchmark::DoNotOptimize(space.index_of(configuration));
}
BENCHMARK(use_index_of_configuration);

template <Neighbourhood kind>
void use_neighbours(benchmark::State& state) {
  const BoundSpace space = chained().bind();
  std::mt19937_64 random(1);
  for (auto _ : state) benchmark::DoNotOptimize(space.neighbours(space.sample(random), kind));
}
BENCHMARK(use_neighbours<Neighbourhood::hamming>);
BENCHMARK(use_neighbours<Neighbourhood::adjacent>);

void use_nearest(benchmark::State& state) {
  const BoundSpace space = chained().bind();
  std::mt19937_64 random(1);
  Positions wanted(space.knobs().size());
  for (auto _ : state) {
    for (auto& position : wanted) position = static_cast<std::uint32_t>(random() % 10);
    benchmark::DoNotOptimize(space.nearest(wanted));
  }
}
BENCHMARK(use_nearest);

}  // namespace
}  // namespace knobwise

BENCHMARK_MAIN();
