// Recordings of kernels that do not exist: search spaces of the usual shapes with times drawn at random, on
// which a strategy cannot have been tuned.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "search_spaces/bound_space.h"
#include "tuner/simulation/recording.h"

namespace knobwise {

/// Spaces of a matrix product, a dedispersion and a stencil, each with recordings drawn from `seed` on. The
/// logarithm of a time is a sum of random curves over single knobs, random tables over some pairs of knobs,
/// and a roughness of each configuration's own; some recordings have a region of failures.
std::vector<std::pair<BoundSpace, std::vector<Recording>>> random_recordings(std::size_t recordings,
                                                                             std::uint64_t seed);

}  // namespace knobwise
