// A plan's description in little memory: many plans are made, and few are asked.
#pragma once

#include <cstdint>
#include <vector>

#include "include/knobwise/dispatcher.h"

namespace knobwise::runtime_detail {

/// All that a problem and the name of a device do not tell already. Immutable.
class PackedDescription {
 public:
  PackedDescription() = default;
  explicit PackedDescription(const PlanDescription& description);

  /// What was packed. `problem` and `device` must be those of then.
  PlanDescription unpack(const Problem& problem, const std::string& device) const;

 private:
  std::vector<std::uint8_t> bytes_;  // an array in CBOR
};

}  // namespace knobwise::runtime_detail
