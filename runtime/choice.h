// What a lookup decided for one problem and requirement.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"
#include "runtime/packed_description.h"

namespace knobwise::runtime_detail {

/// Immutable once published in a table, `period` excepted; lives as long as its Core. Small, for there is one
/// for every problem of an application.
struct Choice {
  /// Whether another one for the same key would run the same in every respect.
  bool same_answer(const Choice& other) const {
    return provenance == other.provenance && packed == other.packed;
  }

  std::uint64_t hash = 0;
  std::string key;  // the bytes of its PlanKey
  PackedDescription packed;
  std::unique_ptr<Executable> executable;
  Provenance provenance = Provenance::reference;
  std::uint32_t number_bytes = 0;  // of the problem's data type
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;
  /// The period of its table that it was last found right in.
  mutable std::atomic<std::uint32_t> period = 0;
};

}  // namespace knobwise::runtime_detail
