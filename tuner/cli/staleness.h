// Which stored trials the present build and machine would no longer trust.
#pragma once

#include <vector>

#include "db/store.h"
#include "kernels/device_info.h"

namespace knobwise::cli {

struct StaleTrials {
  std::vector<TrialGroup> source;    ///< Of other sources of a kernel that this build has.
  std::vector<TrialGroup> software;  ///< Of this machine's devices under another driver, toolkit or compiler.

  std::vector<TrialGroup> all() const;
};

std::int64_t count(const std::vector<TrialGroup>& groups);

/// Kernels that this build does not have, and software of devices that are not among `here`, cannot be judged
/// and count as current.
StaleTrials stale_trials(const Store& store, const std::vector<DeviceInfo>& here);

}  // namespace knobwise::cli
