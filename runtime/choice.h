// What a lookup decided for one problem and requirement.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"
#include "runtime/packed_description.h"

namespace knobwise::runtime_detail {

/// Immutable once published in a table; lives as long as its Core.
struct Choice {
  PlanKey key;
  PackedDescription packed;
  std::unique_ptr<Executable> executable;
  Provenance provenance = Provenance::reference;
  std::size_t input_bytes = 0;
  std::size_t output_bytes = 0;

  /// Unpacked when somebody asks, then kept. Thread-safe.
  const PlanDescription& description(const std::string& device) const {
    std::call_once(asked, [&] {
      unpacked = std::make_unique<const PlanDescription>(packed.unpack(key.problem(), device));
    });
    return *unpacked;
  }

  mutable std::once_flag asked = {};
  mutable std::unique_ptr<const PlanDescription> unpacked = nullptr;
};

}  // namespace knobwise::runtime_detail
