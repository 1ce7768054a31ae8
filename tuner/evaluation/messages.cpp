#include "tuner/evaluation/messages.h"

#include <string>
#include <vector>

namespace knobwise {

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DeviceInfo, backend, ordinal, vendor, name, architecture,
                                   compute_capability, multiprocessors, memory_bytes, free_memory_bytes,
                                   clock_khz, memory_clock_khz, l1_bytes, l2_bytes, l3_bytes,
                                   shared_bytes_per_block, shared_bytes_per_multiprocessor,
                                   registers_per_multiprocessor, max_threads_per_block,
                                   max_threads_per_multiprocessor, vector_bytes, vector_registers, bf16,
                                   driver_version)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resources, registers, spill_bytes, stack_bytes, static_shared_bytes,
                                   dynamic_shared_bytes, occupancy, waves, binary_bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimingOptions, warmup, min_samples, max_samples, max_seconds,
                                   relative_halfwidth, abandon_above_us, beaten_above_us)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Timing, samples_us, median_us, min_us, mean_us, summary_us, abandoned)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TimingRecord, time_us, kind, min_us, mean_us, samples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ErrorRecord, distribution, max_abs, mean_abs, rms, rel_fro, frac_outside,
                                   checked, nan_count)

namespace {

template <class T>
json optional_to_json(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

template <class T>
std::optional<T> optional_from_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

std::optional<std::int64_t> known(std::int64_t figure) {
  if (figure < 0) return std::nullopt;
  return figure;
}

}  // namespace

json to_message(const DeviceInfo& device) {
  return device;
}
DeviceInfo device_from_message(const json& message) {
  return message.get<DeviceInfo>();
}

json to_message(const TimingOptions& options) {
  return options;
}
TimingOptions timing_options_from_message(const json& message) {
  return message.get<TimingOptions>();
}

json to_message(const Timing& timing) {
  return timing;
}
Timing timing_from_message(const json& message) {
  return message.get<Timing>();
}

json to_message(const CompiledCode& code) {
  return {{"image", json::binary({code.image.begin(), code.image.end()})},
          {"resources", code.resources},
          {"seconds", code.seconds}};
}

CompiledCode code_from_message(const json& message) {
  CompiledCode code;
  const auto& image = message.at("image").get_binary();
  code.image.assign(image.begin(), image.end());
  code.resources = message.at("resources").get<Resources>();
  code.seconds = message.at("seconds").get<double>();
  return code;
}

json to_message(const TrialRecord& trial) {
  const ResourceRecord& r = trial.resources;
  return {{"status", to_string(trial.status)},
          {"reason", trial.reason},
          {"timing", optional_to_json(trial.timing)},
          {"errors", trial.errors},
          {"registers", optional_to_json(r.registers)},
          {"spill_bytes", optional_to_json(r.spill_bytes)},
          {"stack_bytes", optional_to_json(r.stack_bytes)},
          {"static_shared_bytes", optional_to_json(r.static_shared_bytes)},
          {"dynamic_shared_bytes", optional_to_json(r.dynamic_shared_bytes)},
          {"occupancy", optional_to_json(r.occupancy)},
          {"binary_bytes", optional_to_json(r.binary_bytes)},
          {"verify_seconds", optional_to_json(trial.verify_seconds)},
          {"measure_seconds", optional_to_json(trial.measure_seconds)},
          {"clock_khz", optional_to_json(trial.clock_khz)},
          {"temperature_c", optional_to_json(trial.temperature_c)},
          {"extra", trial.extra}};
}

TrialRecord trial_from_message(const json& message) {
  TrialRecord trial;
  trial.status = parse_trial_status(message.at("status").get<std::string>());
  trial.reason = message.at("reason").get<std::string>();
  trial.timing = optional_from_json<TimingRecord>(message.at("timing"));
  trial.errors = message.at("errors").get<std::vector<ErrorRecord>>();
  ResourceRecord& r = trial.resources;
  r.registers = optional_from_json<std::int64_t>(message.at("registers"));
  r.spill_bytes = optional_from_json<std::int64_t>(message.at("spill_bytes"));
  r.stack_bytes = optional_from_json<std::int64_t>(message.at("stack_bytes"));
  r.static_shared_bytes = optional_from_json<std::int64_t>(message.at("static_shared_bytes"));
  r.dynamic_shared_bytes = optional_from_json<std::int64_t>(message.at("dynamic_shared_bytes"));
  r.occupancy = optional_from_json<double>(message.at("occupancy"));
  r.binary_bytes = optional_from_json<std::int64_t>(message.at("binary_bytes"));
  trial.verify_seconds = optional_from_json<double>(message.at("verify_seconds"));
  trial.measure_seconds = optional_from_json<double>(message.at("measure_seconds"));
  trial.clock_khz = optional_from_json<std::int64_t>(message.at("clock_khz"));
  trial.temperature_c = optional_from_json<double>(message.at("temperature_c"));
  trial.extra = message.at("extra").get<std::string>();
  return trial;
}

ResourceRecord resource_record(const Resources& resources) {
  ResourceRecord record;
  record.registers = known(resources.registers);
  record.spill_bytes = known(resources.spill_bytes);
  record.stack_bytes = known(resources.stack_bytes);
  record.static_shared_bytes = known(resources.static_shared_bytes);
  record.dynamic_shared_bytes = known(resources.dynamic_shared_bytes);
  if (resources.occupancy >= 0) record.occupancy = resources.occupancy;
  record.binary_bytes = known(resources.binary_bytes);
  return record;
}

std::string extra_facts(const Resources& resources) {
  json facts = json::object();
  if (resources.waves >= 0) facts["waves"] = resources.waves;
  return facts.dump();
}

TimingRecord timing_record(const Timing& timing, Backend backend) {
  TimingRecord record;
  record.time_us = timing.summary_us;
  record.kind = backend == Backend::cuda ? TimeKind::median : TimeKind::lower_quartile;
  record.min_us = timing.min_us;
  record.mean_us = timing.mean_us;
  record.samples = timing.samples_us;
  return record;
}

}  // namespace knobwise
