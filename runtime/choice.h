// What a lookup decided for one problem and requirement.
#pragma once

#include <cstdint>
#include <memory>

#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"

namespace knobwise::runtime_detail {

/// Immutable once published in a table; lives as long as its Core.
struct Choice {
  PlanKey key;
  PlanDescription description;
  std::unique_ptr<Executable> executable;
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
};

}  // namespace knobwise::runtime_detail
