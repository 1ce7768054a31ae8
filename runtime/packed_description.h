// A plan's description in little memory: many plans are made, and few are asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "include/knobwise/dispatcher.h"
#include "kernels/family.h"

namespace knobwise::runtime_detail {

/// Texts that descriptions repeat, in an order that never changes: the problem's line, the device's name,
/// then any others.
using KnownTexts = std::vector<std::string>;

/// What the known texts, the kernel and the key of a plan do not tell already. Immutable.
class PackedDescription {
 public:
  PackedDescription() = default;
  PackedDescription(const PlanDescription& description, const KernelFamily& family, const KnownTexts& known);

  bool operator==(const PackedDescription&) const = default;

  /// What was packed, provenance and sizes excepted. `known` must say the same as then.
  PlanDescription unpack(Backend backend, const KnownTexts& known) const;

 private:
  std::vector<std::uint8_t> bytes_;  // an array in CBOR
};

}  // namespace knobwise::runtime_detail
