#include "db/records.h"

#include <fmt/core.h>

#include <array>
#include <stdexcept>
#include <tuple>

#include "search_spaces/never_destroyed.h"

namespace knobwise {
namespace {

/// Words in the order of the enumerations.
constexpr std::array<std::string_view, 16> kTrialStatuses = {"ok",
                                                             "unsupported",
                                                             "invalid",
                                                             "compile_failed",
                                                             "compile_timeout",
                                                             "compile_crashed",
                                                             "load_failed",
                                                             "out_of_resources",
                                                             "out_of_memory",
                                                             "launch_failed",
                                                             "crashed",
                                                             "timeout",
                                                             "wrong_result",
                                                             "out_of_bounds",
                                                             "device_lost",
                                                             "internal_error"};
constexpr std::array<std::string_view, 4> kSessionStates = {"running", "finished", "interrupted", "failed"};
constexpr std::array<std::string_view, 3> kTimeKinds = {"median", "lower_quartile", "minimum"};

template <class Enum, std::size_t size>
Enum parse_word(const std::array<std::string_view, size>& words, std::string_view word, const char* what) {
  for (std::size_t i = 0; i < size; ++i) {
    if (words[i] == word) return static_cast<Enum>(i);
  }
  throw std::invalid_argument(fmt::format("'{}' is no {}", word, what));
}

std::int64_t whole_gib(std::int64_t bytes) {
  return (bytes + (std::int64_t{1} << 29)) / (std::int64_t{1} << 30);
}

auto sizes(const DeviceRecord& device) {
  return std::make_tuple(device.multiprocessors, whole_gib(device.memory_bytes), device.l2_bytes,
                         device.shared_memory_per_block);
}

bool within(double metric, const std::optional<double>& limit) {
  return !limit || metric <= *limit;
}

}  // namespace

std::string_view to_string(TrialStatus status) {
  return kTrialStatuses.at(static_cast<std::size_t>(status));
}
std::string_view to_string(SessionState state) {
  return kSessionStates.at(static_cast<std::size_t>(state));
}
std::string_view to_string(TimeKind kind) {
  return kTimeKinds.at(static_cast<std::size_t>(kind));
}

TrialStatus parse_trial_status(std::string_view word) {
  return parse_word<TrialStatus>(kTrialStatuses, word, "trial status");
}
SessionState parse_session_state(std::string_view word) {
  return parse_word<SessionState>(kSessionStates, word, "session state");
}
TimeKind parse_time_kind(std::string_view word) {
  return parse_word<TimeKind>(kTimeKinds, word, "kind of time");
}

const std::vector<TrialStatus>& all_trial_statuses() {
  static const auto& statuses = never_destroyed([] {
    std::vector<TrialStatus> all;
    for (std::size_t i = 0; i < kTrialStatuses.size(); ++i) all.push_back(static_cast<TrialStatus>(i));
    return all;
  }());
  return statuses;
}

DeviceMatch match_devices(const DeviceRecord& a, const DeviceRecord& b) {
  if (a.backend != b.backend || a.architecture != b.architecture) return DeviceMatch::different;
  if (a.vendor != b.vendor || sizes(a) != sizes(b)) return DeviceMatch::same_architecture;
  return a.name == b.name ? DeviceMatch::same_device : DeviceMatch::same_hardware;
}

std::string_view to_string(DeviceMatch match) {
  constexpr std::array<std::string_view, 4> kWords = {"same device", "same architecture and size",
                                                      "same architecture", "different"};
  return kWords.at(static_cast<std::size_t>(match));
}

bool same_device(const DeviceRecord& a, const DeviceRecord& b) {
  return match_devices(a, b) == DeviceMatch::same_device;
}

bool meets(const std::vector<ErrorRecord>& errors, const AccuracyLimits& limits) {
  if (errors.empty()) return false;
  for (const ErrorRecord& error : errors) {
    const bool met = error.nan_count == 0 && within(error.max_abs, limits.max_abs) &&
                     within(error.mean_abs, limits.mean_abs) && within(error.rms, limits.rms) &&
                     within(error.rel_fro, limits.rel_fro) && within(error.frac_outside, limits.frac_outside);
    if (!met) return false;
  }
  return true;
}

}  // namespace knobwise
