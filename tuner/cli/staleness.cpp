#include "tuner/cli/staleness.h"

#include <map>

#include "kernels/family.h"
#include "runtime/records.h"

namespace knobwise::cli {
namespace {

bool other_source(const FamilyRecord& stored) {
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    if (to_string(backend) != stored.backend) continue;
    const KernelFamily* family = find_family(backend, stored.name);
    return family != nullptr && family->source_hash() != stored.source_hash;
  }
  return false;
}

bool other_software(const EnvironmentRecord& stored, const EnvironmentRecord& now) {
  return stored.driver_version != now.driver_version || stored.toolkit_version != now.toolkit_version ||
         stored.compiler != now.compiler;
}

}  // namespace

std::vector<TrialGroup> StaleTrials::all() const {
  std::vector<TrialGroup> groups = source;
  groups.insert(groups.end(), software.begin(), software.end());
  return groups;
}

std::int64_t count(const std::vector<TrialGroup>& groups) {
  std::int64_t trials = 0;
  for (const TrialGroup& group : groups) trials += group.trials;
  return trials;
}

StaleTrials stale_trials(const Store& store, const std::vector<DeviceInfo>& here) {
  std::map<std::int64_t, EnvironmentRecord> now;  // by device
  for (const auto& [id, device] : store.devices()) {
    for (const DeviceInfo& info : here) {
      if (same_device(device, device_record(info))) now[id] = environment_record(info);
    }
  }
  StaleTrials stale;
  for (const TrialGroup& group : store.groups()) {
    const auto software = now.find(group.device);
    if (other_source(store.family(group.family))) {
      stale.source.push_back(group);
    } else if (software != now.end() &&
               other_software(store.environment(group.environment), software->second)) {
      stale.software.push_back(group);
    }
  }
  return stale;
}

}  // namespace knobwise::cli
