// The hash by which plans are found again.
#pragma once

#include <cstdint>

#include "include/knobwise/dispatcher.h"

namespace knobwise::runtime_detail {

/// Covers every field of both; no allocation.
std::uint64_t hash_of(const Problem& problem, const Requirement& requirement);

}  // namespace knobwise::runtime_detail
