// The pipeline of a session: compile workers in front of one measuring worker.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "db/records.h"
#include "kernels/device.h"
#include "tuner/evaluation/worker_process.h"

namespace knobwise {

struct EvaluatorOptions {
  std::string executable;  ///< What the workers run: the knobwise executable.
  std::string device;      ///< "cpu", "cuda:0".
  DeviceInfo info;         ///< Of that device.
  Problem problem;
  std::uint64_t seed = 0;  ///< Of the verification's inputs.
  int jobs = 1;            ///< Compile workers.
  double compile_limit_seconds = 120;
  double run_limit_seconds = 30;  ///< Besides what the runs of a trial should take.
  /// Compiling pauses while something is measured: for devices that share the processor with the compilers.
  bool exclusive_measuring = false;
  /// Set from a signal handler: makes wait() return early.
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

/// A configuration to evaluate; `id` is the caller's and comes back with the result.
struct EvaluationRequest {
  std::uint64_t id = 0;
  const KernelFamily* family = nullptr;
  Configuration configuration;
};

struct EvaluationResult {
  EvaluationRequest request;
  TrialRecord trial;  ///< Without ids: status, reason, timing, errors, resources and durations.
};

/// Evaluates configurations of one problem on one device in worker processes.
///
/// A worker that dies or exceeds a limit costs the trial it was at, with the reason recorded, and is
/// replaced. Results come in the order in which they finish. Not thread-safe; workers end with the object.
class Evaluator {
 public:
  /// Starts the measuring worker. Throws UserError when the device cannot hold the problem.
  explicit Evaluator(EvaluatorOptions options);

  void submit(EvaluationRequest request);
  /// Submitted and without a result.
  std::size_t pending() const {
    return compile_queue_.size() + compiling() + ready_.size() + (measuring_ ? 1 : 0);
  }
  /// How many submissions keep every worker busy.
  std::size_t depth() const;

  /// The next result; none when nothing is pending, the deadline has passed, or an interruption came.
  std::optional<EvaluationResult> wait(std::chrono::steady_clock::time_point deadline);

  /// Drops what has not begun to be measured.
  void cancel_queued();

  /// Tells the fastest accurate time so far, in microseconds: limits follow it.
  void set_best(double time_us) { best_us_ = time_us; }

  /// Times configurations that were evaluated before again, in turn, `rounds` times, so that drift meets all
  /// of them alike; an entry is empty where that failed. Call only when nothing is pending.
  std::vector<std::optional<Timing>> retime(const std::vector<EvaluationRequest>& requests, int rounds);

  /// Seconds in which the measuring worker was at work.
  double device_busy_seconds() const { return busy_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

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

  std::size_t compiling() const;
  void start_measure_worker();
  bool try_start_measure_worker();
  void start_compiling();
  void start_measuring();
  void finish_compile(CompileSlot& slot, const nlohmann::json& reply);
  void fail_compile(CompileSlot& slot, TrialStatus status, const std::string& reason);
  void finish_measure(const nlohmann::json& reply);
  void fail_measure(TrialStatus status, const std::string& reason);
  void check_limits();
  void read_workers(Clock::time_point deadline);
  Clock::time_point next_limit() const;
  double trial_limit_seconds() const;
  bool may_compile() const;
  bool may_measure();
  nlohmann::json compile_request(const EvaluationRequest& request) const;
  nlohmann::json measure_request(const Compiled& compiled, const TimingOptions& timing) const;
  std::optional<Compiled> compile_again(const EvaluationRequest& request);
  std::optional<Timing> time_again(const Compiled& compiled);

  EvaluatorOptions options_;
  std::vector<CompileSlot> slots_;
  std::optional<WorkerProcess> measure_worker_;
  std::deque<EvaluationRequest> compile_queue_;
  std::deque<Compiled> ready_;
  std::optional<Compiled> measuring_;
  Clock::time_point measure_started_;
  std::deque<EvaluationResult> results_;
  bool draining_ = false;  // with exclusive measuring: what is compiled is measured before more is compiled
  double best_us_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace knobwise
