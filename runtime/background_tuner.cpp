#include "runtime/background_tuner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "db/layered_store.h"
#include "kernels/helper_thread.h"
#include "runtime/log.h"
#include "runtime/records.h"

namespace knobwise::runtime_detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPollSeconds = 0.05;
constexpr double kGraceSeconds = 3;  // between asking a process to end and ending it

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// A lock that processes share, held until the end of the scope; a folder that cannot be written has none.
class MachineLock {
 public:
  explicit MachineLock(const std::filesystem::path& path) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  }
  ~MachineLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;

  bool take() { return descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }

 private:
  int descriptor_ = -1;
};

}  // namespace

BackgroundTuner::BackgroundTuner(TuningSettings settings)
    : settings_(std::move(settings)), process_(getpid()) {
  const SignalsBlocked blocked;
  thread_ = std::jthread([this](std::stop_token stop) { serve(std::move(stop)); });
}

BackgroundTuner::~BackgroundTuner() = default;

void EndTuner::operator()(BackgroundTuner* tuner) const {
  if (!tuner->forked()) delete tuner;
}

bool BackgroundTuner::forked() const {
  return process_ != getpid();
}

std::string BackgroundTuner::key_of(const std::string& line, const AccuracyRequirement& accuracy) {
  return line + "\n" + accuracy.to_string();
}

void BackgroundTuner::ask(const Problem& problem, const AccuracyRequirement& accuracy) {
  if (forked()) return;
  Job job{problem.to_string(), accuracy};
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, inserted] = statuses_.try_emplace(key_of(job.line, accuracy));
    if (!inserted) return;
    entry->second.state = TuningState::waiting;
    waiting_.push_back(std::move(job));
  }
  changed_.notify_all();
}

TuningStatus BackgroundTuner::status(const Problem& problem, const AccuracyRequirement& accuracy) const {
  if (forked()) return {TuningState::failed, "the process that this one was forked from tunes, not this one"};
  const std::lock_guard lock(mutex_);
  const auto entry = statuses_.find(key_of(problem.to_string(), accuracy));
  return entry == statuses_.end() ? TuningStatus{} : entry->second;
}

void BackgroundTuner::forget_failures() {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  std::erase_if(statuses_, [](const auto& entry) { return entry.second.state == TuningState::failed; });
}

void BackgroundTuner::set(const Job& job, TuningState state, std::string message) {
  const std::lock_guard lock(mutex_);
  statuses_[key_of(job.line, job.accuracy)] = {state, std::move(message)};
}

bool BackgroundTuner::wait(const std::stop_token& stop, double seconds) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return !stop.stop_requested();
}

void BackgroundTuner::serve(std::stop_token stop) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); }) || stop.stop_requested()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    tune(job, stop);
  }
}

void BackgroundTuner::tune(const Job& job, const std::stop_token& stop) {
  TuningStatus status;
  try {
    status = run(job, stop);
  } catch (const std::exception& error) {
    status = {TuningState::failed, error.what()};
  }
  if (settings_.log && !stop.stop_requested()) {
    if (status.state == TuningState::failed)
      log_warning(fmt::format("tuning '{}' in the background failed: {}", job.line, status.message));
    else
      log_info(
          fmt::format("tuned '{}' in the background: {}; refresh() lets it serve", job.line, status.message));
  }
  set(job, status.state, std::move(status.message));
}

TuningStatus BackgroundTuner::run(const Job& job, const std::stop_token& stop) {
  const TuningStatus stopped{TuningState::failed, "the dispatcher has ended"};
  MachineLock lock(settings_.code_cache / fmt::format("tuning-{}.lock", device_name()));
  while (!lock.take()) {
    set(job, TuningState::waiting, "another process tunes on this device");
    if (!wait(stop, 2 * kPollSeconds)) return stopped;
  }
  if (stop.stop_requested()) return stopped;
  if (const auto time = answer(job))
    return {TuningState::finished, fmt::format("{:.4g} us on record", *time)};

  TuningProcess process(command(job), "KNOBWISE_CACHE=" + settings_.code_cache.string());
  set(job, TuningState::running, "");
  const TuneOnMiss& options = settings_.options;
  const double limit = options.limit_seconds > 0 ? options.limit_seconds : 2 * options.seconds + 60;
  const auto begin = Clock::now();
  std::optional<std::string> outcome;
  bool late = false;
  // The end is asked for once; what does not heed that ends with `process`.
  for (double deadline = limit; !(outcome = process.outcome()); wait(stop, kPollSeconds)) {
    const bool ends = stop.stop_requested() || seconds_since(begin) > deadline;
    if (!ends) continue;
    if (stop.stop_requested()) return stopped;
    if (late) break;
    late = true;
    process.interrupt();
    deadline = limit + kGraceSeconds;
  }
  if (stop.stop_requested()) return stopped;
  const auto time = answer(job);
  if (late)
    return {time ? TuningState::finished : TuningState::failed,
            fmt::format("{} was ended after its limit of {:g} s{}", command(job)[0], limit,
                        time ? fmt::format(" with {:.4g} us", *time) : "")};
  if (!outcome->empty()) return {TuningState::failed, *outcome};
  if (time) return {TuningState::finished, fmt::format("{:.4g} us", *time)};
  return {TuningState::failed,
          fmt::format("{} ended well, but its results do not serve here: it must be of this library's "
                      "version, {}",
                      command(job)[0], KNOBWISE_VERSION)};
}

std::string BackgroundTuner::device_name() const {
  const DeviceInfo& device = settings_.device;
  return device.backend == Backend::cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal);
}

std::vector<std::string> BackgroundTuner::command(const Job& job) const {
  // The application goes on: a quarter of the processors compile.
  const unsigned jobs = std::max(1u, std::thread::hardware_concurrency() / 4);
  return {find_knobwise(settings_.options.executable).string(),
          "tune",
          job.line,
          "--device=" + device_name(),
          "--db=" + settings_.database.string(),
          "--accuracy=" + job.accuracy.to_string(),
          fmt::format("--max-time={}", settings_.options.seconds),
          fmt::format("--jobs={}", jobs),
          fmt::format("--end-with={}", getpid())};
}

// The time of the best result on record that this library would serve as exact.
std::optional<double> BackgroundTuner::answer(const Job& job) const {
  try {
    std::vector<Store> layers;
    layers.push_back(Store::open_to_read(settings_.database));
    const auto best = LayeredStore(std::move(layers))
                          .best(job.line, device_record(settings_.device), accuracy_limits(job.accuracy),
                                current_families(settings_.device.backend));
    if (best && best->match <= DeviceMatch::same_hardware) return best->trial.timing.value().time_us;
  } catch (const UserError&) {
    // No database yet.
  }
  return std::nullopt;
}

}  // namespace knobwise::runtime_detail
