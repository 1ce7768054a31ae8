// Tuning in the background: problems wait in a line, and one process at a time searches for one of them.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "include/knobwise/dispatcher.h"
#include "runtime/tuning_process.h"

namespace knobwise::runtime_detail {

struct TuningSettings {
  TuneOnMiss options;
  std::filesystem::path database;    ///< Takes the results; made if it is missing.
  std::filesystem::path code_cache;  ///< Shared with the process, so that what it compiles serves here.
  DeviceInfo device;
  bool log = true;
};

/// Thread-safe; no call waits for a process. Destruction ends the one at work, with all it started; what it
/// has measured is in the database.
///
/// One process at a time tunes on a device for all dispatchers of this machine that share a code cache: two
/// would spoil each other's times.
class BackgroundTuner {
 public:
  explicit BackgroundTuner(TuningSettings settings);
  ~BackgroundTuner();
  BackgroundTuner(const BackgroundTuner&) = delete;
  BackgroundTuner& operator=(const BackgroundTuner&) = delete;

  /// Queues the problem unless it was asked for before. In a child of the process that made this nothing is
  /// queued and every status is that it failed.
  void ask(const Problem& problem, const AccuracyRequirement& accuracy);
  TuningStatus status(const Problem& problem, const AccuracyRequirement& accuracy) const;
  /// What failed may be asked for again.
  void forget_failures();

 private:
  struct Job {
    std::string line;
    AccuracyRequirement accuracy;
  };
  static std::string key_of(const std::string& line, const AccuracyRequirement& accuracy);

  void serve(std::stop_token stop);
  void tune(const Job& job, const std::stop_token& stop);
  TuningStatus run(const Job& job, const std::stop_token& stop);
  std::vector<std::string> command(const Job& job) const;
  std::optional<double> answer(const Job& job) const;
  /// False when it was stopped before that.
  bool wait(const std::stop_token& stop, double seconds) const;
  void set(const Job& job, TuningState state, std::string message);
  std::string device_name() const;

  friend struct EndTuner;

  // Whether this is a child of the process with the thread, which may have held the mutex at the fork.
  bool forked() const;

  const TuningSettings settings_;
  const pid_t process_;  // that has the thread
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::map<std::string, TuningStatus> statuses_;  // by key_of()
  std::deque<Job> waiting_;
  std::jthread thread_;  // last: it uses the others
};

/// Destroys a tuner where its thread is; a child that the process forked leaves it alone, as it would wait
/// for ever.
struct EndTuner {
  void operator()(BackgroundTuner* tuner) const;
};

}  // namespace knobwise::runtime_detail
