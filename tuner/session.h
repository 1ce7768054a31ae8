// One tuning run: a problem on one or more devices, searched within a budget, every trial committed as it
// finishes.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "kernels/accuracy.h"
#include "kernels/device.h"
#include "kernels/device_info.h"
#include "kernels/problem.h"
#include "kernels/user/user_kernel.h"
#include "search_spaces/value.h"

namespace knobwise {

/// A device to tune on.
struct SessionDevice {
  std::string name = "cpu";  ///< As open_device() takes it.
  DeviceInfo info;
};

struct SessionOptions {
  std::string executable;  ///< What worker processes run: the knobwise executable.
  std::vector<SessionDevice> devices;
  std::string strategy = "auto";
  std::uint64_t seed = 0;
  /// Configurations of the searched families to try, those on record from earlier sessions included. Built-in
  /// families (vendor libraries) are tried whole besides.
  std::optional<std::int64_t> max_trials;
  /// Of this, built-in families together get a quarter, besides the first configuration of each, and what the
  /// searched ones leave.
  std::optional<double> max_seconds;
  AccuracyRequirement accuracy;
  std::vector<std::string>
      families;  ///< Only these; empty: all but the reference, which serves if nothing else does.
  /// If any: only these configurations of the families named are tried, each timed in full, without regard to
  /// max_trials; baselines on record stay as they are.
  std::vector<std::pair<std::string, Configuration>> configurations;
  /// The user's own kernel that the problem belongs to, registered with its backend; it must outlive the
  /// session.
  const UserKernel* kernel = nullptr;
  int jobs = 1;          ///< Compile workers, for all devices together.
  bool overlap = true;   ///< False: one configuration after the other is compiled, then measured.
  TimingOptions timing;  ///< Of each trial; what is beaten gets fewer samples.
  double compile_limit_seconds = 120;  ///< A compilation is stopped after this.
  double run_limit_seconds = 30;       ///< A trial is stopped when it exceeds its expected runs by this.
  bool store_code =
      false;  ///< Store the machine code of the best configuration, at this and every named accuracy.
  std::string command_line;
  const volatile std::sig_atomic_t* interrupted = nullptr;
};

/// How far a session has come.
struct SessionProgress {
  std::string device;  ///< As in SessionResult, but empty where there is only one.
  double best_us = 0;  ///< So far; 0 before the first accepted trial.
  std::int64_t done = 0;
  std::int64_t total = 0;  ///< As far as the budget and the spaces tell; 0 if only time limits the session.
  double seconds = 0;      ///< Since the session's start.
};

/// A trial as the listener sees it.
struct TrialEvent : SessionProgress {
  std::string family;
  const TrialRecord* trial = nullptr;
  bool accepted = false;  ///< Succeeded and accurate enough.
  bool reused = false;    ///< On record from an earlier session.
  bool improved = false;
};

/// What is under way while no trial ends.
struct WaitingEvent : SessionProgress {
  std::size_t compiling = 0, measuring = 0;             ///< Configurations.
  double compiling_seconds = 0, measuring_seconds = 0;  ///< Since the oldest of them began.
};

class SessionListener {
 public:
  virtual ~SessionListener() = default;
  virtual void note(const std::string& line) = 0;
  virtual void trial(const TrialEvent& event) = 0;
  /// About every second in which no trial ends.
  virtual void waiting(const WaitingEvent& event) { (void)event; }
};

struct SessionResult {
  std::string device;  ///< "cuda:0", or several of one kind: "cuda:0,cuda:1".
  DeviceInfo info;     ///< Of the first.
  SessionState state = SessionState::finished;
  std::int64_t id = 0;
  std::optional<TrialRecord> best;  ///< Fastest accepted trial of this problem, device and build.
  std::string best_family;
  std::int64_t evaluated = 0, reused = 0, failed = 0;
  double seconds = 0;
  double opening_seconds = 0;  ///< Of these, until the devices were ready to measure.
  double search_seconds = 0;   ///< Of these, until the last trial: without timing the finalists again.
  double busy_share = 0;  ///< Of the devices' time in the search, how much they were verifying or timing.
  std::vector<BaselineRecord> baselines;
};

/// Runs a session for each kind of device among options.devices, side by side. Devices of one kind share a
/// session: what one measures holds for all, so they divide the work. One result for each session, in order
/// of the devices. Throws UserError, before anything is measured, when the request cannot be carried out (no
/// family, an unknown strategy, a configuration outside its space, a space that the constraints empty, not
/// enough memory); whatever a configuration does wrong is a trial.
std::vector<SessionResult> tune(Store& store, const Problem& problem, const SessionOptions& options,
                                SessionListener& listener);

}  // namespace knobwise
