// The content of messages between the processes of a session, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "db/records.h"
#include "kernels/device.h"
#include "kernels/device_info.h"

namespace knobwise {

nlohmann::json to_message(const DeviceInfo& device);
DeviceInfo device_from_message(const nlohmann::json& message);

nlohmann::json to_message(const CompiledCode& code);
CompiledCode code_from_message(const nlohmann::json& message);

/// Only what an evaluation finds out: status, reason, timing, errors, resources, durations, clocks, extra.
nlohmann::json to_message(const TrialRecord& trial);
TrialRecord trial_from_message(const nlohmann::json& message);

nlohmann::json to_message(const TimingOptions& options);
TimingOptions timing_options_from_message(const nlohmann::json& message);

nlohmann::json to_message(const Timing& timing);
Timing timing_from_message(const nlohmann::json& message);

/// The resources of compiled or loaded code as the database stores them.
ResourceRecord resource_record(const Resources& resources);

/// What the database has no column for, as TrialRecord::extra: {"waves": 3.2}, blocks of a launch over those
/// that the device holds at once.
std::string extra_facts(const Resources& resources);

/// The timing as the database stores it.
TimingRecord timing_record(const Timing& timing, Backend backend);

}  // namespace knobwise
