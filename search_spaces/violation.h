// Why a configuration does not belong to a space. Internal to search_spaces/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search_spaces/bound_space.h"
#include "search_spaces/space.h"

namespace knobwise {

/// Where a value is in a knob's list; values compare as in Python.
std::optional<std::uint32_t> position_of(const Knob& knob, const Value& value);

/// See BoundSpace::violation().
std::optional<std::string> violation_of(const std::vector<Knob>& knobs,
                                        const std::vector<Constraint>& constraints, const Names& constants,
                                        const Configuration& configuration);

}  // namespace knobwise
