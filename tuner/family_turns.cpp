#include "tuner/family_turns.h"

#include <algorithm>

namespace knobwise {
namespace {

constexpr double kSlowest = 4;
constexpr std::size_t kPatience = 10;

double slowness(const FamilyTurns& family, double fastest_us) {
  if (family.best_us > 0) return std::min(family.best_us / fastest_us, kSlowest);
  return family.trials < kPatience ? 1 : kSlowest;
}

}  // namespace

std::size_t next_family(const std::vector<FamilyTurns>& families) {
  double fastest_us = 0;
  for (const FamilyTurns& family : families)
    if (family.best_us > 0 && (fastest_us == 0 || family.best_us < fastest_us)) fastest_us = family.best_us;
  const auto cost = [&](const FamilyTurns& family) {
    const double slow = slowness(family, fastest_us);
    return static_cast<double>(family.trials) * slow * slow;
  };
  return static_cast<std::size_t>(std::ranges::min_element(families, {}, cost) - families.begin());
}

}  // namespace knobwise
