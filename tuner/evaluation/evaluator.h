// The pipeline of a session: compile workers in front of one measuring worker for each device.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/records.h"
#include "kernels/device.h"
#include "kernels/user/user_kernel.h"
#include "tuner/evaluation/measuring_worker.h"
#include "tuner/evaluation/worker_process.h"

namespace knobwise {

/// Devices of one kind: what one of them measures holds for all.
struct DeviceGroup {
  DeviceInfo info;                 ///< Of the first.
  std::vector<std::string> names;  ///< "cpu"; "cuda:0", "cuda:1".

  /// Timing on the processor shares it with the compilers, so these are stopped meanwhile.
  bool exclusive() const { return info.backend == Backend::cpu; }
};

struct EvaluatorOptions {
  std::string executable;  ///< What the workers run: the knobwise executable.
  std::vector<DeviceGroup> groups;
  Problem problem;
  const UserKernel* kernel = nullptr;  ///< The user's own, if the problem is its.
  std::uint64_t seed = 0;              ///< Of the verification's inputs.
  int jobs = 1;                        ///< Compile workers, for all devices together.
  bool overlap = true;   ///< False: one configuration is compiled, then measured, before the next begins.
  TimingOptions timing;  ///< Of each trial; its limits to the best are set by the evaluator.
  double compile_limit_seconds = 120;
  double run_limit_seconds = 30;  ///< Besides what the runs of a trial should take.
  /// Set from a signal handler: makes wait() return early.
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

/// A configuration to evaluate; `id` is the caller's and comes back with the result.
struct EvaluationRequest {
  std::uint64_t id = 0;
  std::size_t group = 0;  ///< Index into EvaluatorOptions::groups.
  const KernelFamily* family = nullptr;
  Configuration configuration;
  bool baseline = false;  ///< Gets all its samples, however slow it is: others are compared with it.
};

/// What the workers of a group are at.
struct Activity {
  std::size_t compiling = 0, measuring = 0;             ///< Configurations.
  double compiling_seconds = 0, measuring_seconds = 0;  ///< Since the oldest of them began.
};

struct EvaluationResult {
  EvaluationRequest request;
  TrialRecord trial;          ///< Without ids: status, reason, timing, errors, resources and durations.
  double device_seconds = 0;  ///< How long a device was at it.
};

/// What measuring a configuration again gave: a timing, or why there is none.
struct Retiming {
  std::optional<Timing> timing;
  TrialStatus status = TrialStatus::ok;
  std::string reason;
};

/// Evaluates configurations of one problem in worker processes, on one or more devices.
///
/// A worker that dies or exceeds a limit costs the trial it was at, with the reason recorded, and is
/// replaced; one that somebody kills costs time only, unless it happens to the same trial again. Results come
/// in the order in which they finish. Not thread-safe; workers end with the object.
class Evaluator {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the measuring workers. Throws UserError when a device cannot hold the problem.
  explicit Evaluator(EvaluatorOptions options);
  ~Evaluator();

  void submit(EvaluationRequest request);
  /// Submitted for the group and without a result.
  std::size_t pending(std::size_t group) const { return groups_[group].pending; }
  /// How many submissions keep every worker of the group busy.
  std::size_t depth(std::size_t group) const;

  /// The next result of any group; none when nothing is pending, the deadline has passed, or an interruption
  /// came.
  std::optional<EvaluationResult> wait(Clock::time_point deadline);

  /// Drops what has not begun to be measured.
  void cancel_queued(std::size_t group);

  /// Tells an accurate time, in microseconds: limits follow the group's fastest; those of a built-in family
  /// follow its own, because others are compared with it.
  void tell_time(std::size_t group, const KernelFamily& family, double time_us);

  Activity activity(std::size_t group) const;

  /// Times configurations of one group that were evaluated before again, on its first device, in turn,
  /// `rounds` times, so that drift meets all of them alike. Ends after the present one when the deadline
  /// passes; before every one had its turn once, there is then no timing at all. Call only when nothing is
  /// pending.
  std::vector<Retiming> retime(const std::vector<EvaluationRequest>& requests, int rounds,
                               Clock::time_point deadline);

  /// The share of the group's devices' time, since the evaluator was made, in which they were verifying or
  /// timing.
  double busy_share(std::size_t group) const;

 private:
  struct Compiled {
    EvaluationRequest request;
    std::optional<nlohmann::json> code;  // none for built-in families
    double compile_seconds = 0;
  };
  struct CompileSlot {
    std::optional<WorkerProcess> worker;
    std::optional<EvaluationRequest> request;
    Clock::time_point started;
  };
  struct Lane {
    std::size_t group;
    MeasuringWorker worker;
    std::optional<Compiled> measuring{};
    Clock::time_point started{};
    std::optional<Clock::time_point> wants_quiet{};
  };
  struct Group {
    std::size_t pending = 0;
    std::deque<Compiled> ready{};
    double best_us = 0;
    std::map<const KernelFamily*, double> builtin_best_us{};
    double longest_seconds = 0;  // of a trial that went well
    double busy_seconds = 0;
  };

  double rival_us(const EvaluationRequest& request) const;
  bool second_chance(const EvaluationRequest& request);
  void share_quiet();
  void pause_compiling();
  void resume_compiling();
  void start_compiling();
  void start_measuring();
  void finish_compile(CompileSlot& slot, const nlohmann::json& reply);
  void fail_compile(CompileSlot& slot, TrialStatus status, const std::string& reason);
  void finish_measure(Lane& lane, const nlohmann::json& reply);
  void fail_measure(Lane& lane, TrialStatus status, const std::string& reason);
  void push_result(Lane& lane, TrialRecord trial);
  void release(Lane& lane);
  void read_slot(CompileSlot& slot);
  void read_lane(Lane& lane);
  void read_workers(Clock::time_point deadline);
  void check_limits();
  Clock::time_point next_limit() const;
  double trial_limit_seconds(const EvaluationRequest& request) const;
  const DeviceInfo& info(std::size_t group) const { return options_.groups[group].info; }
  bool interrupted() const { return options_.interrupted && *options_.interrupted; }
  nlohmann::json problem_message() const;
  nlohmann::json compile_request(const EvaluationRequest& request) const;
  nlohmann::json measure_request(const Compiled& compiled, const TimingOptions& timing) const;
  std::optional<Compiled> compile_again(const EvaluationRequest& request);
  Retiming time_once(Lane& lane, const Compiled& compiled);
  Retiming time_again(Lane& lane, const Compiled& compiled);

  EvaluatorOptions options_;
  std::vector<CompileSlot> slots_;
  std::vector<Lane> lanes_;
  std::vector<Group> groups_;
  std::deque<EvaluationRequest> compile_queue_;
  std::deque<EvaluationResult> results_;
  std::set<std::pair<std::size_t, std::uint64_t>> killed_once_;  // group and id
  const Lane* quiet_ = nullptr;  // times while compilers and the other lanes of exclusive groups wait
  std::optional<Clock::time_point> paused_;
  Clock::time_point opened_;
};

}  // namespace knobwise
