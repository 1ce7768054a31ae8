// A problem and a requirement as bytes: what lookups compare, and what a plan keeps of its problem.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "include/knobwise/dispatcher.h"

namespace knobwise::runtime_detail {

/// Holds those of most problems without an allocation.
using KeyBytes = fmt::basic_memory_buffer<char, 256>;

/// Equal bytes for equal problems and requirements, different ones otherwise. Mostly fewer than 80.
void append_key(const Problem& problem, const Requirement& requirement, KeyBytes& to);

/// The problem of bytes that append_key() made.
Problem problem_of_key(std::string_view bytes);

std::uint64_t hash_of(std::string_view bytes);

}  // namespace knobwise::runtime_detail
