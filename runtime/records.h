// From what runs (problems, devices, families) to rows of the database.
#pragma once

#include "db/records.h"
#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/family.h"
#include "kernels/problem.h"

namespace knobwise {

DeviceRecord device_record(const DeviceInfo& device);
/// The software at hand: driver and compiler as the device reports them, this build's version, the operating
/// system.
EnvironmentRecord environment_record(const DeviceInfo& device);
ProblemRecord problem_record(const Problem& problem);
FamilyRecord family_record(const KernelFamily& family);
ErrorRecord error_record(Distribution distribution, const ErrorMetrics& metrics);
AccuracyLimits accuracy_limits(const AccuracyRequirement& requirement);

/// The families of a backend as they are in this build: what makes a trial current rather than stale.
std::vector<FamilyRecord> current_families(Backend backend);

}  // namespace knobwise
