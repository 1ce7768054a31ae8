// Positions between the values of knobs, for searches that move in a continuous space.
#pragma once

#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// One real number for each knob: where it stands in the knob's list of values.
using ContinuousPosition = std::vector<double>;

ContinuousPosition continuous(const BoundSpace& space, std::uint64_t index);

/// The nearest valid configuration; a coordinate past an end of its list counts as the end. Throws UserError
/// if the space is empty.
std::uint64_t nearest_index(const BoundSpace& space, const ContinuousPosition& position);

}  // namespace knobwise
