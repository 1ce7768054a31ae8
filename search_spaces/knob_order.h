// The order in which the solver chooses knobs. Internal to search_spaces/.
#pragma once

#include <cstdint>
#include <vector>

#include "search_spaces/program.h"

namespace knobwise {

/// Constraints that take few choices to complete come first, connected ones in a row, so that few partial
/// choices are open at any time; knobs without constraints come last. `sizes`: how many values each knob may
/// take.
std::vector<std::uint32_t> order_knobs(const std::vector<std::size_t>& sizes,
                                       const std::vector<const Program*>& constraints);

}  // namespace knobwise
