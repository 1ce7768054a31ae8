// The rows of the store as plain values. Everything that belongs to the vocabulary (problem lines,
// configurations, family names) is text here: the store knows nothing of kernels.
//
// Ids are the row numbers of one database file; they mean nothing in another file. Text is UTF-8. Times of
// day are UTC in ISO 8601 ("2026-01-31T12:00:00.000Z", see db/identifiers.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace knobwise {

/// What makes results transferable between two machines; never an ordinal.
///
/// Identity is all but the clocks and `extra`, with the memory taken in whole GiB: drivers and kernels
/// reserve a varying part of it, and clocks are a setting. See same_device() and match_devices().
struct DeviceRecord {
  std::string backend;                       ///< "cpu" or "cuda".
  std::string vendor;                        ///< "NVIDIA", "AuthenticAMD".
  std::string name;                          ///< As the driver or the processor reports it.
  std::string architecture;                  ///< "sm_90", "x86-64-v4".
  std::int64_t multiprocessors = 1;          ///< Streaming multiprocessors, or cores; at least 1.
  std::int64_t memory_bytes = 0;             ///< Device memory, or the host's; 0 when unknown.
  std::int64_t clock_khz = 0;                ///< Rated maximum; 0 when unknown.
  std::int64_t memory_clock_khz = 0;         ///< Rated maximum; 0 when unknown.
  std::int64_t l2_bytes = 0;                 ///< The last cache in front of the memory; 0 when unknown.
  std::int64_t shared_memory_per_block = 0;  ///< With the opt-in, in bytes; 0 where there is none.
  std::string extra = "{}";                  ///< A JSON object of further facts; not part of the identity.

  bool operator==(const DeviceRecord&) const = default;
};

/// How far results of one device may be trusted on another, best first.
enum class DeviceMatch {
  same_device,        ///< Equal identity: times and choices carry over.
  same_hardware,      ///< Equal sizes and architecture under another name: a twin sold under two names.
  same_architecture,  ///< Code runs and choices are a good start; times do not carry over.
  different,
};

/// "same device", "same architecture and size", "same architecture", "different".
std::string_view to_string(DeviceMatch match);

/// True when both describe the same kind of device (see DeviceRecord for what counts).
bool same_device(const DeviceRecord& a, const DeviceRecord& b);

/// Compares sizes and architecture as well as names: a name alone decides neither way.
DeviceMatch match_devices(const DeviceRecord& a, const DeviceRecord& b);

/// The software a trial ran under. A change of any part makes older trials visibly of another environment.
struct EnvironmentRecord {
  std::string driver_version;    ///< Empty for the CPU.
  std::string toolkit_version;   ///< NVRTC's version; empty for the CPU.
  std::string compiler;          ///< The host compiler's name and version where it takes part.
  std::string knobwise_version;  ///< The version of the code that generated, verified and timed.
  std::string os;

  bool operator==(const EnvironmentRecord&) const = default;
};

/// One problem: the canonical line is its key; the rest repeats the line in columns for queries.
/// Dimensions that the operator lacks are 1 (padding 0).
struct ProblemRecord {
  std::string line;                   ///< Canonical, as the problem printer writes it.
  std::string op;                     ///< "conv2d".
  std::string dtype;                  ///< "f32".
  std::string layout;                 ///< "nchw".
  std::string epilogue;               ///< The part of the line after the first "|", or empty.
  std::int64_t rank = 2;              ///< Spatial dimensions, 1 to 3.
  std::int64_t flops = 0;             ///< Two per multiply-accumulate.
  std::int64_t compulsory_bytes = 0;  ///< Every operand read once, the output written once.
  std::int64_t n = 1, c = 1, d = 1, h = 1, w = 1;
  std::int64_t k = 1, t = 1, r = 1, s = 1, groups = 1;
  std::int64_t stride_d = 1, stride_h = 1, stride_w = 1;
  std::int64_t pad_d = 0, pad_h = 0, pad_w = 0;
  std::int64_t dilation_d = 1, dilation_h = 1, dilation_w = 1;

  bool operator==(const ProblemRecord&) const = default;
};

/// One version of one kernel family; another source hash is another row, so that older results stay visible
/// as stale.
struct FamilyRecord {
  std::string backend;
  std::string name;
  std::string source_hash;

  bool operator==(const FamilyRecord&) const = default;
};

enum class SessionState { running, finished, interrupted, failed };

/// One tuning run of one problem on one device.
struct SessionRecord {
  std::string uuid;  ///< See make_uuid().
  std::int64_t device = 0;
  std::int64_t environment = 0;
  std::int64_t problem = 0;
  std::string strategy;
  std::uint64_t seed = 0;
  std::optional<std::int64_t> max_trials = std::nullopt;  ///< The budget; without a value, unlimited.
  std::optional<double> max_seconds = std::nullopt;
  std::string accuracy;  ///< The requirement as the user wrote it, "allclose 1e-4".
  std::string started;
  std::optional<std::string> finished = std::nullopt;
  SessionState state = SessionState::running;
  std::string command_line;
  std::string host;

  bool operator==(const SessionRecord&) const = default;
};

/// How a trial ended. A closed list: the schema refuses any other word.
enum class TrialStatus {
  ok,                ///< Compiled, verified and timed. Says nothing of the accuracy: see ErrorRecord.
  unsupported,       ///< The family refuses this problem.
  invalid,           ///< The configuration breaks a limit that is known before compiling.
  compile_failed,    ///< The compiler reported errors.
  compile_timeout,   ///< The compiler exceeded its time limit.
  compile_crashed,   ///< The compiler, or the process around it, died.
  load_failed,       ///< The compiled code could not be loaded.
  out_of_resources,  ///< The launch needs more registers, shared memory or threads than the device has.
  out_of_memory,     ///< Buffers or workspace could not be allocated.
  launch_failed,     ///< Any other refusal to launch.
  crashed,           ///< The kernel faulted, or the measuring process died with it.
  timeout,           ///< The kernel exceeded its time limit.
  wrong_result,   ///< The output misses the bound of its own precision mode, or some of it was never written.
  out_of_bounds,  ///< The kernel wrote outside its buffers.
  device_lost,    ///< The device failed; the configuration may be innocent.
  internal_error,  ///< A defect of the tuner itself.
};

/// How the samples were summarised into time_us.
/// The lower quartile and the minimum serve devices whose noise only adds.
enum class TimeKind { median, lower_quartile, minimum };

/// The word of the schema for a value, and back. Parsing throws std::invalid_argument on any other word.
std::string_view to_string(TrialStatus status);
std::string_view to_string(SessionState state);
std::string_view to_string(TimeKind kind);
TrialStatus parse_trial_status(std::string_view word);
SessionState parse_session_state(std::string_view word);
TimeKind parse_time_kind(std::string_view word);

/// All statuses in the order of the enumeration.
const std::vector<TrialStatus>& all_trial_statuses();

/// Execution time in microseconds. All three figures are above 0 and finite.
struct TimingRecord {
  double time_us = 0;  ///< The summary that ranks trials.
  TimeKind kind = TimeKind::median;
  double min_us = 0;
  double mean_us = 0;
  std::vector<float> samples;  ///< Raw, in the order they were taken.

  bool operator==(const TimingRecord&) const = default;
};

/// The measured error against the float64 reference for one input distribution.
/// A metric that is NaN is stored as NULL, read back as NaN, and never meets a limit.
struct ErrorRecord {
  std::string distribution;  ///< "uniform", "normal" or "integers".
  double max_abs = 0;
  double mean_abs = 0;
  double rms = 0;
  double rel_fro = 0;        ///< Frobenius norm of the error over that of the reference.
  double frac_outside = 0;   ///< Fraction of the checked elements outside |out - ref| <= 1e-4 + 1e-4 * |ref|.
  std::int64_t checked = 0;  ///< Elements compared; above 0.
  std::int64_t nan_count = 0;  ///< Elements that were NaN where the reference is not; above 0 never passes.

  bool operator==(const ErrorRecord&) const = default;
};

/// What the compiled kernel takes from the device; a value is missing where the backend cannot tell.
struct ResourceRecord {
  std::optional<std::int64_t> registers = std::nullopt;  ///< Per thread.
  std::optional<std::int64_t> spill_bytes = std::nullopt;
  std::optional<std::int64_t> stack_bytes = std::nullopt;
  std::optional<std::int64_t> static_shared_bytes = std::nullopt;   ///< Per block.
  std::optional<std::int64_t> dynamic_shared_bytes = std::nullopt;  ///< Per block.
  std::optional<double> occupancy = std::nullopt;  ///< Resident warps over the most possible, 0 to 1.
  std::optional<std::int64_t> binary_bytes = std::nullopt;  ///< Size of the compiled code.

  bool operator==(const ResourceRecord&) const = default;
};

/// One configuration evaluated for one problem on one device.
/// (device, environment, problem, family, configuration) is the key.
struct TrialRecord {
  std::int64_t id = 0;  ///< Set when read; ignored by inserts.
  std::int64_t session = 0;
  std::int64_t device = 0;
  std::int64_t environment = 0;
  std::int64_t problem = 0;
  std::int64_t family = 0;
  std::string configuration;  ///< Canonical JSON object.
  std::string precision;      ///< The configuration's precision mode, for queries; may be empty.
  TrialStatus status = TrialStatus::ok;
  std::string reason;                                 ///< First lines of the message; empty when ok.
  std::optional<TimingRecord> timing = std::nullopt;  ///< Present exactly when the status is ok.
  std::vector<ErrorRecord>
      errors;  ///< At most one per distribution; read back in order of distribution name.
  ResourceRecord resources;
  std::optional<double> compile_seconds = std::nullopt;
  std::optional<double> verify_seconds = std::nullopt;
  std::optional<double> measure_seconds = std::nullopt;
  std::optional<std::int64_t> clock_khz = std::nullopt;  ///< Observed while timing.
  std::optional<double> temperature_c = std::nullopt;    ///< Observed while timing.
  std::string started;
  double wall_seconds = 0;         ///< From the start of the session to the end of this trial.
  std::int64_t session_order = 0;  ///< 0, 1, 2... within the session.
  /// When the timing was last replaced by Store::update_timing().
  std::optional<std::string> retimed = std::nullopt;
  std::string extra = "{}";  ///< A JSON object of further facts.

  bool operator==(const TrialRecord&) const = default;
};

/// A time to compare with that is no trial: a library's default path, an untuned kernel.
/// (device, environment, problem, name) is the key.
struct BaselineRecord {
  std::int64_t device = 0;
  std::int64_t environment = 0;
  std::int64_t problem = 0;
  std::string name;  ///< "oneDNN f32".
  TimingRecord timing;
  std::vector<ErrorRecord> errors;
  std::string started;

  bool operator==(const BaselineRecord&) const = default;
};

/// The error a caller accepts, judged on the measured metrics of every distribution on record.
/// A metric without a limit is not judged, but an output that held NaN, or a trial without a measurement,
/// never meets any limits, not even empty ones.
struct AccuracyLimits {
  std::optional<double> max_abs = std::nullopt;
  std::optional<double> mean_abs = std::nullopt;
  std::optional<double> rms = std::nullopt;
  std::optional<double> rel_fro = std::nullopt;
  std::optional<double> frac_outside = std::nullopt;

  bool operator==(const AccuracyLimits&) const = default;
};

/// |out - ref| <= 1e-4 + 1e-4 * |ref| for every element.
inline AccuracyLimits allclose_limits() {
  return {.frac_outside = 0.0};
}

/// The same judgement that Store::best() makes in SQL.
bool meets(const std::vector<ErrorRecord>& errors, const AccuracyLimits& limits);

}  // namespace knobwise
