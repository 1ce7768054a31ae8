#include "bench/random_recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "search_spaces/space.h"

namespace knobwise {
namespace {

struct Text {
  const char* name;
  std::vector<std::pair<const char*, const char*>> knobs;
  std::vector<const char*> conditions;
};

const std::vector<Text>& texts() {
  static const std::vector<Text> kTexts = {
      {"matrix product",
       {{"mwg", "[16, 32, 64, 128]"},
        {"nwg", "[16, 32, 64, 128]"},
        {"kwg", "[16, 32]"},
        {"mdimc", "[8, 16, 32]"},
        {"ndimc", "[8, 16, 32]"},
        {"mdima", "[8, 16, 32]"},
        {"ndimb", "[8, 16, 32]"},
        {"vwm", "[1, 2, 4, 8]"},
        {"vwn", "[1, 2, 4, 8]"},
        {"sa", "[0, 1]"},
        {"sb", "[0, 1]"}},
       {"mwg % (mdimc * vwm) == 0", "nwg % (ndimc * vwn) == 0", "mwg % (mdima * vwm) == 0",
        "nwg % (ndimb * vwn) == 0", "kwg % (mdimc * ndimc // mdima) == 0",
        "kwg % (mdimc * ndimc // ndimb) == 0"}},
      {"dedispersion",
       {{"block_x", "[1, 2, 4, 8] + [16 * i for i in range(1, 33)]"},
        {"block_y", "[8 * i for i in range(4, 33)]"},
        {"tile_x", "range(1, 5)"},
        {"tile_y", "range(1, 9)"},
        {"stride_x", "[0, 1]"},
        {"stride_y", "[0, 1]"}},
       {"32 <= block_x * block_y <= 1024", "tile_x > 1 or stride_x == 0", "tile_y > 1 or stride_y == 0"}},
      {"stencil",
       {{"block_x", "[1, 2, 4, 8, 16] + [32 * i for i in range(1, 17)]"},
        {"block_y", "[1, 2, 4, 8, 16, 32]"},
        {"tile_x", "range(1, 7)"},
        {"tile_y", "range(1, 7)"},
        {"steps", "range(1, 6)"},
        {"shared", "['none', 'input', 'both']"}},
       {"32 <= block_x * block_y <= 1024", "shared == 'none' or block_x * tile_x * block_y * tile_y <= 6144",
        "steps == 1 or shared != 'none'"}}};
  return kTexts;
}

BoundSpace space_of(const Text& text) {
  std::vector<KnobDeclaration> knobs;
  for (const auto& [name, values] : text.knobs)
    knobs.push_back({name, KnobDeclaration::Type::any, {Expression::parse(values)}, std::nullopt});
  std::vector<Constraint> constraints;
  for (const char* condition : text.conditions) constraints.push_back({Expression::parse(condition), ""});
  return SearchSpace(text.name, std::move(knobs), std::move(constraints)).bind();
}

constexpr double kFloor = 0.5;  // what every configuration takes, in units of the typical rest

void standardise(std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (double value : values) mean += value / static_cast<double>(values.size());
  for (double value : values) squares += (value - mean) * (value - mean) / static_cast<double>(values.size());
  for (double& value : values) value = (value - mean) / std::sqrt(squares + 1e-12);
}

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
  }
  /// A random walk.
  std::vector<double> curve(std::size_t points) {
    std::vector<double> at(points, 0);
    for (std::size_t i = 1; i < points; ++i) at[i] = at[i - 1] + normal();
    standardise(at);
    return at;
  }

 private:
  std::mt19937_64 random_;
};

// One summand of the logarithm of a time: a product of curves over two knobs, or a curve over one.
struct Term {
  double weight;
  std::size_t first, second;
  std::vector<double> first_curve, second_curve;

  double at(const Positions& positions) const {
    return weight * first_curve[positions[first]] * second_curve[positions[second]];
  }
};

std::vector<double> standardised(const BoundSpace& space, const std::vector<Term>& terms) {
  std::vector<double> sums;
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const Positions positions = space.positions(index);
    sums.push_back(0);
    for (const Term& term : terms) sums.back() += term.at(positions);
  }
  standardise(sums);
  return sums;
}

Recording record(const BoundSpace& space, std::uint64_t seed) {
  Draw draw(seed);
  const std::size_t knobs = space.knobs().size();
  const auto curve = [&](std::size_t knob) { return draw.curve(space.knobs()[knob].values.size()); };
  std::vector<Term> terms, limits;
  for (std::size_t knob = 0; knob < knobs; ++knob) {
    const std::vector<double> flat(space.knobs()[knob].values.size(), 1);
    terms.push_back({0.35 * std::abs(draw.normal()), knob, knob, curve(knob), flat});
    limits.push_back({std::abs(draw.normal()), knob, knob, curve(knob), flat});
    for (std::size_t other = 0; other < knob; ++other) {
      if (draw.uniform() < 0.4)
        terms.push_back({0.25 * std::abs(draw.normal()), knob, other, curve(knob), curve(other)});
    }
  }
  const double roughness = 0.02 + 0.1 * draw.uniform();
  const double limit = draw.uniform() < 0.5 ? std::numeric_limits<double>::infinity() : 1;
  const double spread = 0.5 + 0.7 * draw.uniform();
  Recording recording{fmt::format("{} {}", space.name(), seed), {}};
  const std::vector<double> slowness = standardised(space, terms);
  const std::vector<double> use = standardised(space, limits);
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const double time = (kFloor + std::exp(spread * slowness[index])) * std::exp(roughness * draw.normal());
    const bool failed = use[index] > limit;
    recording.failures += failed ? 1 : 0;
    recording.times.push_back(failed ? std::numeric_limits<double>::infinity() : time);
  }
  return recording;
}

}  // namespace

std::vector<std::pair<BoundSpace, std::vector<Recording>>> random_recordings(std::size_t recordings,
                                                                             std::uint64_t seed) {
  std::vector<std::pair<BoundSpace, std::vector<Recording>>> all;
  for (const Text& text : texts()) {
    all.emplace_back(space_of(text), std::vector<Recording>());
    for (std::size_t i = 0; i < recordings; ++i)
      all.back().second.push_back(record(all.back().first, seed + i));
  }
  return all;
}

}  // namespace knobwise
