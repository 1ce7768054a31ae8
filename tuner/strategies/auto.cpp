#include "tuner/strategies/auto.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr SurrogateEffort kEffort{4096, 64, 1.4};
constexpr std::size_t kLocalTurns = 4;  // every so many trials one is local
constexpr std::size_t kCentres = 10;    // fastest configurations whose neighbours are looked at

}  // namespace

AutoStrategy::AutoStrategy(const BoundSpace& space, std::uint64_t seed)
    : SurrogateStrategy(space, kEffort, seed) {}

std::optional<std::uint64_t> AutoStrategy::choose(Surrogate& surrogate) {
  if (++turn_ % kLocalTurns == 0) {
    if (const auto chosen = local(surrogate)) return chosen;
  }
  return surrogate.best_candidate(book());
}

std::optional<std::uint64_t> AutoStrategy::local(Surrogate& surrogate) const {
  std::vector<Observation> fastest = book().results();
  const std::size_t centres = std::min(kCentres, fastest.size());
  std::partial_sort(fastest.begin(), fastest.begin() + static_cast<std::ptrdiff_t>(centres), fastest.end(),
                    [](const Observation& a, const Observation& b) {
                      return a.time_us < b.time_us || (a.time_us == b.time_us && a.index < b.index);
                    });
  for (std::size_t i = 0; i < centres && fastest[i].succeeded(); ++i) {
    const auto near = space().neighbours(fastest[i].index, Neighbourhood::hamming);
    if (const auto chosen = surrogate.best_of(near, book())) return chosen;
  }
  return std::nullopt;
}

}  // namespace knobwise
