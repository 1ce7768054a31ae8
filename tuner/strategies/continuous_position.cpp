#include "tuner/strategies/continuous_position.h"

#include <algorithm>
#include <cmath>

namespace knobwise {

ContinuousPosition continuous(const BoundSpace& space, std::uint64_t index) {
  const Positions positions = space.positions(index);
  return ContinuousPosition(positions.begin(), positions.end());
}

std::uint64_t nearest_index(const BoundSpace& space, const ContinuousPosition& position) {
  Positions rounded(position.size());
  for (std::size_t knob = 0; knob < position.size(); ++knob) {
    const double last = static_cast<double>(space.knobs()[knob].values.size() - 1);
    rounded[knob] = static_cast<std::uint32_t>(std::lround(std::clamp(position[knob], 0.0, last)));
  }
  const auto valid = space.index_of(rounded);
  return valid ? *valid : space.nearest(rounded);
}

}  // namespace knobwise
