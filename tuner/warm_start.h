// Where a search begins when the database knows similar problems or other devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/store.h"
#include "kernels/device_info.h"
#include "kernels/family.h"
#include "search_spaces/bound_space.h"

namespace knobwise {

/// What a search is about.
struct WarmStartQuery {
  const KernelFamily& family;
  const Problem& problem;
  const DeviceInfo& device;
  const BoundSpace& space;
  AccuracyLimits limits;
  std::string before;  ///< Only trials that started earlier count, so that a session resumed begins alike.
};

/// Configurations of the space that did well on the nearest problems and devices on record, in any version of
/// the family: the fastest of each source in turn, the nearest source first. Values that the space does not
/// have give way to the nearest. A few at most.
std::vector<std::uint64_t> warm_starts(const Store& store, const WarmStartQuery& query);

}  // namespace knobwise
