// The tuning database: one SQLite file, described in docs/schema.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/records.h"

namespace knobwise {

/// A row together with its id.
template <class Record>
struct Stored {
  std::int64_t id = 0;
  Record record;
};

/// The result of an insert under a key.
struct InsertResult {
  std::int64_t id = 0;
  bool inserted = false;  ///< False when the key was there already: `id` is that row, which stays as it was.
};

/// Answer of Store::best().
struct BestAnswer {
  std::optional<TrialRecord> trial;
  /// Trials that meet the limits and are faster than `trial`, but are not current: the fastest of each such
  /// family version and environment, fastest first.
  std::vector<TrialRecord> stale;
};

/// What a caller can run now. Trials of anything else are stale: their times may no longer hold.
struct CurrentVersions {
  /// The family versions at hand; without a value, every version counts.
  std::optional<std::vector<FamilyRecord>> families = std::nullopt;
  /// The software at hand; without a value, every environment counts.
  std::optional<EnvironmentRecord> environment = std::nullopt;

  CurrentVersions() = default;
  CurrentVersions(std::vector<FamilyRecord> current_families) : families(std::move(current_families)) {}
  CurrentVersions(std::vector<FamilyRecord> current_families, EnvironmentRecord current_environment)
      : families(std::move(current_families)), environment(std::move(current_environment)) {}
};

/// How many rows there are, for an overview.
struct StoreCounts {
  std::int64_t devices = 0, environments = 0, problems = 0, families = 0;
  std::int64_t sessions = 0, trials = 0, trials_ok = 0, baselines = 0;
  std::int64_t codes = 0;  ///< Trials with machine code.
};

/// Trials that share what decides whether they are stale; the ids of their database.
struct TrialGroup {
  std::int64_t device = 0, environment = 0, family = 0;
  std::int64_t trials = 0;
};

/// Which trials to remove: those that meet any of the conditions.
struct PruneOptions {
  std::vector<TrialGroup> groups;  ///< All trials of these.
  bool failed = false;
  /// All but the fastest so many of each precision mode, and the fastest so many within 1e-4, for each
  /// problem, device, environment and family version.
  std::optional<std::int64_t> keep_best = std::nullopt;
  bool code = false;  ///< All machine code, whatever becomes of its trials.
};

struct PruneResult {
  std::int64_t trials = 0;
  std::int64_t sessions = 0;  ///< Ended ones that lost their last trial.
  std::int64_t codes = 0;     ///< Trials that lost their machine code, the removed ones included.
};

/// What a merge changed.
struct MergeResult {
  std::int64_t sessions = 0, trials = 0, baselines = 0, codes = 0;  ///< Added.
  std::int64_t renewed = 0;  ///< Trials on record whose source was timed again later.
};

/// A connection to one database file.
///
/// Thread safety: one Store belongs to one thread at a time; each thread (and, after a fork, each process)
/// opens its own. Any number of Stores, in any number of processes, may read and write the same file at once:
/// writers wait for each other, readers never wait where the file system allows a write-ahead log.
///
/// Every modifying call is one transaction, committed when it returns: a killed process loses
/// nothing that returned.
///
/// Errors: a file that cannot be used (not there, no database, damaged, another application's, newer,
/// read-only) is a UserError; so is damage that shows later, a full disk, or a lock that outlasts the
/// generous waiting time. A record that breaks a rule of the schema (a time that is 0 or NaN, an unknown id)
/// is a defect of the caller: std::invalid_argument.
class Store {
 public:
  enum class Mode {
    /// Created when missing or of zero bytes; brought to the newest schema version, with a copy of the older
    /// one
    /// kept beside it ("FILE.schemaN.backup").
    read_write,
    /// Must exist, of any schema version that has what this build reads; nothing is written, not even next to
    /// it
    /// where the place does not allow it.
    read_only,
  };

  /// The schema version that this build writes.
  static int latest_version();

  static Store open(const std::filesystem::path& path, Mode mode);
  /// For reading by an application. Other processes' locks are waited for that long, here and later, then it
  /// is an error; open() waits a minute, as commands do.
  static Store open_to_read(const std::filesystem::path& path,
                            std::chrono::milliseconds patience = std::chrono::seconds(2));

  /// A private database that lives as long as the object.
  static Store in_memory();

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// As given to open(); empty in memory.
  const std::filesystem::path& path() const;
  bool read_only() const;
  /// Of the file; other than latest_version() only when opened read-only.
  int version() const;

  // --- What things are: each returns the id of the equal row, which is added when missing.
  std::int64_t intern_device(const DeviceRecord& device);
  std::int64_t intern_environment(const EnvironmentRecord& environment);
  /// The line is the key: the other columns of a line that is on record stay as they are.
  std::int64_t intern_problem(const ProblemRecord& problem);
  std::int64_t intern_family(const FamilyRecord& family);

  /// Replaces the further facts of a device, a JSON object, for example after measuring its ceilings.
  void update_device_extra(std::int64_t device, const std::string& extra);

  /// The same search without adding. The device is found by identity, see DeviceRecord.
  std::optional<std::int64_t> find_device(const DeviceRecord& device) const;
  std::optional<std::int64_t> find_environment(const EnvironmentRecord& environment) const;
  std::optional<std::int64_t> find_problem(const std::string& line) const;
  std::optional<std::int64_t> find_family(const FamilyRecord& family) const;

  /// The row of an id; std::invalid_argument when there is none.
  DeviceRecord device(std::int64_t id) const;
  EnvironmentRecord environment(std::int64_t id) const;
  ProblemRecord problem(std::int64_t id) const;
  FamilyRecord family(std::int64_t id) const;

  /// All rows in order of id.
  std::vector<Stored<DeviceRecord>> devices() const;
  std::vector<Stored<EnvironmentRecord>> environments() const;
  std::vector<Stored<ProblemRecord>> problems() const;
  std::vector<Stored<FamilyRecord>> families() const;

  /// Devices on record that match at least by architecture, best match first.
  std::vector<std::pair<Stored<DeviceRecord>, DeviceMatch>> devices_like(const DeviceRecord& device) const;

  // --- Sessions
  /// Adds a session; `session.uuid` must be new. State and finish are stored as given.
  std::int64_t begin_session(const SessionRecord& session);
  /// Ends a session in any state but running, with the present time.
  void finish_session(std::int64_t id, SessionState state);
  /// Sets an ended session running again.
  void resume_session(std::int64_t id);
  SessionRecord session(std::int64_t id) const;
  std::optional<std::int64_t> find_session(const std::string& uuid) const;
  /// All sessions, oldest first.
  std::vector<Stored<SessionRecord>> sessions() const;
  /// One more than the largest session_order of the session's trials, 0 when there are none.
  std::int64_t next_session_order(std::int64_t session) const;

  // --- Trials
  /// Stores a finished trial with its errors. Work that any session has on record is not stored again: see
  /// InsertResult. (Merging is what brings two measurements of the same work into one file.)
  InsertResult insert_trial(const TrialRecord& trial);
  /// All in one transaction, for imports: all are stored or, on an error, none.
  std::vector<InsertResult> insert_trials(std::span<const TrialRecord> trials);
  /// Replaces the timing of an ok trial that was measured again, and sets its `retimed`.
  void update_timing(std::int64_t trial, const TimingRecord& timing);
  /// Takes back an ok trial that failed when measured again: the times go, the status and the reason are set.
  void mark_failed(std::int64_t trial, TrialStatus status, const std::string& reason);

  TrialRecord trial(std::int64_t id) const;

  /// The finished trials of one search, failed ones included, by configuration: what a resumed session skips.
  /// Of several measurements of a configuration, one that succeeded.
  std::map<std::string, TrialRecord> finished_trials(std::int64_t device, std::int64_t environment,
                                                     std::int64_t problem, std::int64_t family) const;

  /// All trials of a session in session order.
  std::vector<TrialRecord> session_trials(std::int64_t session) const;
  /// All trials of a problem on a device, over all families, environments and sessions, in order of id.
  std::vector<TrialRecord> trials(std::int64_t problem, std::int64_t device) const;

  /// The fastest ok trial of a problem on a device whose measured errors meet the limits, of those that are
  /// current; faster ones that are not are reported as stale.
  /// Cost: an index walk from the fastest trial on; no scan.
  BestAnswer best(std::int64_t problem, std::int64_t device, const AccuracyLimits& limits,
                  const CurrentVersions& current = {}) const;

  /// best() of every problem that has an answer on the device, in order of problem id.
  std::vector<TrialRecord> best_of_device(std::int64_t device, const AccuracyLimits& limits,
                                          const CurrentVersions& current = {}) const;

  // --- Baselines
  /// Stores a baseline; one of the same key is replaced.
  void put_baseline(const BaselineRecord& baseline);
  /// All baselines of a problem on a device, fastest first.
  std::vector<BaselineRecord> baselines(std::int64_t problem, std::int64_t device) const;

  // --- Other files
  /// Takes over everything of another database, which may be of any readable version and is not changed:
  /// every session (by uuid) with its trials, failed ones included, every baseline, machine code. A trial
  /// that is there already is not added again; where two copies of one differ, the one timed last counts, as
  /// of a baseline the one measured last. So merging again changes nothing, and the order of merges does not
  /// matter. Throws UserError, with nothing taken over, when the source cannot be read.
  MergeResult merge(const std::filesystem::path& source);

  /// Trials counted by device, environment and family version.
  std::vector<TrialGroup> groups() const;
  /// Removes trials with all that belongs to them, in one transaction, then gives the space back to the disk
  /// unless another process is at work on the file.
  PruneResult prune(const PruneOptions& options);
  /// What prune() would remove now.
  PruneResult prune_preview(const PruneOptions& options);

  /// What is wrong with the file, one line each: damage that SQLite finds, references to missing rows,
  /// machine code that is not what was stored, figures that triggers keep and that do not agree. Reads all of
  /// it.
  std::vector<std::string> check() const;

  /// Stores trials as another file has them, in one transaction: unlike insert_trial(), next to other
  /// sessions' trials of the same work. One that its session has already is passed over.
  void copy_trials(std::span<const TrialRecord> trials);

  // --- Machine code
  /// Stores the machine code of a trial, compressed; equal code is stored once. Replaces what the trial had.
  void put_code(std::int64_t trial, std::string_view image);
  /// The machine code of a trial, if it has any. Throws UserError when it is not what was stored: damaged
  /// code never comes out. Whether it may be *run* is the caller's to decide, see docs/security.md.
  std::optional<std::string> code(std::int64_t trial) const;

  /// True when any trial succeeded; at once, however large the file.
  bool has_results() const;
  /// Runs `read`, during which every call of this Store sees the file as of one moment, whatever others
  /// write. It may only read, and not call this again. A write-ahead log lets writers go on meanwhile;
  /// without one they wait.
  void at_one_moment(const std::function<void()>& read) const;
  StoreCounts counts() const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  /// For another version: UserError when a table or column that this build reads is not there.
  void require_readable() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace knobwise
