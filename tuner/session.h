// One tuning run: a problem on a device, searched within a budget, every trial committed as it finishes.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"
#include "kernels/accuracy.h"
#include "kernels/device_info.h"
#include "kernels/problem.h"

namespace knobwise {

struct SessionOptions {
  std::string executable;  ///< What worker processes run: the knobwise executable.
  std::string device = "cpu";
  DeviceInfo info;  ///< Of that device.
  std::string strategy = "auto";
  std::uint64_t seed = 0;
  /// Configurations of the searched families to try, those on record from earlier sessions included. Built-in
  /// families (vendor libraries) are tried whole besides.
  std::optional<std::int64_t> max_trials;
  std::optional<double> max_seconds;
  AccuracyRequirement accuracy;
  std::vector<std::string>
      families;  ///< Only these; empty: all but the reference, which serves if nothing else does.
  int jobs = 1;
  double compile_limit_seconds = 120;  ///< A compilation is stopped after this.
  double run_limit_seconds = 30;       ///< A trial is stopped when it exceeds its expected runs by this.
  std::string command_line;
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

/// A trial as the listener sees it.
struct TrialEvent {
  std::string family;
  const TrialRecord* trial = nullptr;
  bool accepted = false;  ///< Succeeded and accurate enough.
  bool reused = false;    ///< On record from an earlier session.
  bool improved = false;
  double best_us = 0;  ///< So far; 0 before the first accepted trial.
  std::int64_t done = 0;
  std::int64_t total = 0;  ///< As far as the budget and the spaces tell; 0 if only time limits the session.
  double seconds = 0;      ///< Since the session's start.
};

class SessionListener {
 public:
  virtual ~SessionListener() = default;
  virtual void note(const std::string& line) = 0;
  virtual void trial(const TrialEvent& event) = 0;
};

struct SessionResult {
  SessionState state = SessionState::finished;
  std::int64_t id = 0;
  std::optional<TrialRecord> best;  ///< Fastest accepted trial of this problem, device and build.
  std::string best_family;
  std::int64_t evaluated = 0, reused = 0, failed = 0;
  double seconds = 0;
  double busy_share = 0;  ///< Of the session's time, how much the device was verifying or timing.
  std::vector<BaselineRecord> baselines;
};

/// Runs a session. Throws UserError when the request cannot be carried out (no family, an unknown strategy, a
/// space that the constraints empty, not enough memory); whatever a configuration does wrong is a trial.
SessionResult tune(Store& store, const Problem& problem, const SessionOptions& options,
                   SessionListener& listener);

}  // namespace knobwise
