#include "tuner/evaluation/evaluator.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kernels/timing.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

constexpr double kOpenLimitSeconds = 300;  // allocating and filling tens of gigabytes takes its time
constexpr std::size_t kExclusiveBatch = 8;

nlohmann::json timing_message(const TimingOptions& options) {
  return {{"warmup", options.warmup},
          {"min_samples", options.min_samples},
          {"max_samples", options.max_samples},
          {"max_seconds", options.max_seconds},
          {"abandon_above_us", options.abandon_above_us}};
}

}  // namespace

Evaluator::Evaluator(EvaluatorOptions options)
    : options_(std::move(options)), slots_(std::max(1, options_.jobs)) {
  start_measure_worker();
}

std::size_t Evaluator::depth() const {
  return options_.exclusive_measuring ? kExclusiveBatch : 2 * slots_.size() + 4;
}

std::size_t Evaluator::compiling() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const CompileSlot& slot) { return slot.request.has_value(); });
}

// A process that dies while it opens the device may have been killed from outside; one that does so every
// time has a reason.
void Evaluator::start_measure_worker() {
  constexpr int kTries = 4;
  std::string how;
  for (int i = 0; i < kTries; ++i) {
    if (try_start_measure_worker()) return;
    how = measure_worker_->reap();
  }
  throw std::runtime_error(fmt::format("device {}: the measuring process ended at its start, {} times: {}",
                                       options_.device, kTries, how));
}

// False if the process ended without a word.
bool Evaluator::try_start_measure_worker() {
  measure_worker_.emplace(WorkerProcess::start(options_.executable, "measure"));
  measure_worker_->send(
      {{"device", options_.device}, {"problem", options_.problem.to_string()}, {"seed", options_.seed}});
  const Clock::time_point limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(kOpenLimitSeconds));
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()).count();
    if (left <= 0) {
      throw std::runtime_error(
          fmt::format("device {}: no answer in {} s", options_.device, kOpenLimitSeconds));
    }
    pollfd waiting{measure_worker_->descriptor(), POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    if (!measure_worker_->reader().fill()) return false;
    if (const auto reply = measure_worker_->reader().next()) {
      if (reply->contains("error")) throw UserError(reply->at("error").get<std::string>());
      return true;
    }
  }
}

void Evaluator::submit(EvaluationRequest request) {
  if (request.family->builtin()) {
    ready_.push_back({std::move(request), std::nullopt, 0});
  } else {
    compile_queue_.push_back(std::move(request));
  }
}

json Evaluator::compile_request(const EvaluationRequest& request) const {
  return {{"id", request.id},
          {"device", to_message(options_.info)},
          {"problem", options_.problem.to_string()},
          {"family", request.family->name()},
          {"configuration", request.configuration.to_json()}};
}

json Evaluator::measure_request(const Compiled& compiled, const TimingOptions& timing) const {
  json body = {{"family", compiled.request.family->name()},
               {"configuration", compiled.request.configuration.to_json()},
               {"timing", timing_message(timing)}};
  if (compiled.code) body["code"] = *compiled.code;
  return body;
}

bool Evaluator::may_compile() const {
  return !options_.exclusive_measuring || (!draining_ && ready_.size() + compiling() < kExclusiveBatch);
}

bool Evaluator::may_measure() {
  if (!options_.exclusive_measuring) return true;
  if (ready_.empty() || compiling() > 0) return false;
  draining_ = draining_ || ready_.size() >= kExclusiveBatch || compile_queue_.empty();
  return draining_;
}

void Evaluator::start_compiling() {
  if (options_.exclusive_measuring && ready_.empty() && !measuring_) draining_ = false;
  for (CompileSlot& slot : slots_) {
    if (compile_queue_.empty() || !may_compile()) return;
    if (slot.request) continue;
    if (!slot.worker) slot.worker.emplace(WorkerProcess::start(options_.executable, "compile"));
    slot.request = std::move(compile_queue_.front());
    compile_queue_.pop_front();
    slot.started = Clock::now();
    slot.worker->send(compile_request(*slot.request));  // a dead worker shows when it is read
  }
}

void Evaluator::start_measuring() {
  if (measuring_ || ready_.empty() || !may_measure()) return;
  measuring_ = std::move(ready_.front());
  ready_.pop_front();
  TimingOptions timing;
  // A kernel that takes several times the best is out of the race after one sample.
  if (best_us_ > 0) timing.abandon_above_us = 3 * best_us_;
  measure_started_ = Clock::now();
  measure_worker_->send({{"evaluate", measure_request(*measuring_, timing)}});
}

void Evaluator::finish_compile(CompileSlot& slot, const json& reply) {
  if (!reply.contains("code")) {
    fail_compile(slot, parse_trial_status(reply.at("status").get<std::string>()),
                 reply.at("reason").get<std::string>());
    return;
  }
  ready_.push_back(
      {std::move(*slot.request), reply.at("code"), Seconds(Clock::now() - slot.started).count()});
  slot.request.reset();
}

void Evaluator::fail_compile(CompileSlot& slot, TrialStatus status, const std::string& reason) {
  EvaluationResult result{std::move(*slot.request), {}};
  slot.request.reset();
  result.trial.status = status;
  result.trial.reason = reason;
  result.trial.compile_seconds = Seconds(Clock::now() - slot.started).count();
  results_.push_back(std::move(result));
}

void Evaluator::finish_measure(const json& reply) {
  busy_seconds_ += Seconds(Clock::now() - measure_started_).count();
  if (!reply.contains("trial")) {
    fail_measure(parse_trial_status(reply.at("status").get<std::string>()),
                 reply.at("reason").get<std::string>());
    return;
  }
  EvaluationResult result{std::move(measuring_->request), trial_from_message(reply.at("trial"))};
  if (measuring_->code) result.trial.compile_seconds = measuring_->compile_seconds;
  measuring_.reset();
  // After a fault the device's state is unknown: the next trial gets a fresh process.
  const TrialStatus status = result.trial.status;
  results_.push_back(std::move(result));
  if (status == TrialStatus::crashed || status == TrialStatus::device_lost ||
      status == TrialStatus::out_of_bounds) {
    measure_worker_.reset();
    start_measure_worker();
  }
}

void Evaluator::fail_measure(TrialStatus status, const std::string& reason) {
  EvaluationResult result{std::move(measuring_->request), {}};
  if (measuring_->code) result.trial.compile_seconds = measuring_->compile_seconds;
  measuring_.reset();
  result.trial.status = status;
  result.trial.reason = reason;
  results_.push_back(std::move(result));
}

double Evaluator::trial_limit_seconds() const {
  // Runs of a trial: three verifications, warm-up, at least one sample. Until a best is known the limit
  // supposes no more than 1 GFLOP/s on a CPU and 100 GFLOP/s on a GPU.
  constexpr double kRuns = 8;
  const double slowest = options_.info.backend == Backend::cuda ? 1e11 : 1e9;
  double run_seconds = static_cast<double>(options_.problem.flops()) / slowest;
  if (best_us_ > 0) run_seconds = std::min(run_seconds, 50 * best_us_ * 1e-6);
  return options_.run_limit_seconds + kRuns * run_seconds;
}

Evaluator::Clock::time_point Evaluator::next_limit() const {
  Clock::time_point next = Clock::time_point::max();
  const auto after = [](Clock::time_point start, double seconds) {
    return start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
  };
  for (const CompileSlot& slot : slots_) {
    if (slot.request) next = std::min(next, after(slot.started, options_.compile_limit_seconds));
  }
  if (measuring_) next = std::min(next, after(measure_started_, trial_limit_seconds()));
  return next;
}

void Evaluator::check_limits() {
  for (CompileSlot& slot : slots_) {
    if (!slot.request || Seconds(Clock::now() - slot.started).count() < options_.compile_limit_seconds)
      continue;
    slot.worker.reset();
    fail_compile(slot, TrialStatus::compile_timeout,
                 fmt::format("the compiler was stopped after {:.0f} s", options_.compile_limit_seconds));
  }
  if (measuring_ && Seconds(Clock::now() - measure_started_).count() >= trial_limit_seconds()) {
    busy_seconds_ += Seconds(Clock::now() - measure_started_).count();
    measure_worker_.reset();
    fail_measure(TrialStatus::timeout, fmt::format("stopped after {:.0f} s", trial_limit_seconds()));
    start_measure_worker();
  }
}

void Evaluator::read_workers(Clock::time_point deadline) {
  std::vector<pollfd> waiting;
  std::vector<CompileSlot*> owners;
  for (CompileSlot& slot : slots_) {
    if (!slot.request) continue;
    waiting.push_back({slot.worker->descriptor(), POLLIN, 0});
    owners.push_back(&slot);
  }
  if (measuring_) waiting.push_back({measure_worker_->descriptor(), POLLIN, 0});
  const auto left = std::min(deadline, next_limit()) - Clock::now();
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  if (poll(waiting.data(), waiting.size(),
           static_cast<int>(std::clamp<long long>(milliseconds, 0, 60'000))) <= 0)
    return;

  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (!waiting[i].revents) continue;
    CompileSlot& slot = *owners[i];
    if (!slot.worker->reader().fill()) {
      const std::string how = slot.worker->reap();
      slot.worker.reset();
      fail_compile(slot, TrialStatus::compile_crashed, fmt::format("the compiling process ended: {}", how));
    } else if (const auto reply = slot.worker->reader().next()) {
      finish_compile(slot, *reply);
    }
  }
  if (waiting.size() > owners.size() && waiting.back().revents) {
    if (!measure_worker_->reader().fill()) {
      busy_seconds_ += Seconds(Clock::now() - measure_started_).count();
      const std::string how = measure_worker_->reap();
      measure_worker_.reset();
      fail_measure(TrialStatus::crashed, fmt::format("the measuring process ended: {}", how));
      start_measure_worker();
    } else if (const auto reply = measure_worker_->reader().next()) {
      finish_measure(*reply);
    }
  }
}

std::optional<EvaluationResult> Evaluator::wait(Clock::time_point deadline) {
  while (true) {
    start_compiling();
    start_measuring();
    if (!results_.empty()) {
      EvaluationResult result = std::move(results_.front());
      results_.pop_front();
      return result;
    }
    if (pending() == 0 || Clock::now() >= deadline) return std::nullopt;
    if (options_.interrupted && *options_.interrupted) return std::nullopt;
    read_workers(deadline);
    check_limits();
  }
}

void Evaluator::cancel_queued() {
  compile_queue_.clear();
  ready_.clear();
  for (CompileSlot& slot : slots_) {
    if (!slot.request) continue;
    slot.worker.reset();
    slot.request.reset();
  }
}

std::optional<Evaluator::Compiled> Evaluator::compile_again(const EvaluationRequest& request) {
  if (request.family->builtin()) return Compiled{request, std::nullopt, 0};
  CompileSlot& slot = slots_.front();
  if (!slot.worker) slot.worker.emplace(WorkerProcess::start(options_.executable, "compile"));
  slot.worker->send(compile_request(request));
  const auto reply = slot.worker->reader().wait();
  if (!reply) slot.worker.reset();
  if (!reply || !reply->contains("code")) return std::nullopt;
  return Compiled{request, reply->at("code"), 0};
}

std::optional<Timing> Evaluator::time_again(const Compiled& compiled) {
  measure_worker_->send({{"time", measure_request(compiled, TimingOptions{})}});
  const auto reply = measure_worker_->reader().wait();
  if (reply && reply->contains("timing")) return timing_from_message(reply->at("timing"));
  if (!reply) {
    measure_worker_.reset();
    start_measure_worker();
  }
  return std::nullopt;
}

std::vector<std::optional<Timing>> Evaluator::retime(const std::vector<EvaluationRequest>& requests,
                                                     int rounds) {
  std::vector<std::optional<Compiled>> compiled;
  for (const EvaluationRequest& request : requests) compiled.push_back(compile_again(request));
  std::vector<std::optional<Timing>> timings(requests.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!compiled[i] || (options_.interrupted && *options_.interrupted)) continue;
      const std::optional<Timing> timing = time_again(*compiled[i]);
      if (!timing) continue;
      if (!timings[i]) timings[i].emplace();
      timings[i]->samples_us.insert(timings[i]->samples_us.end(), timing->samples_us.begin(),
                                    timing->samples_us.end());
    }
  }
  for (auto& timing : timings) {
    if (timing) summarise(*timing, options_.info.backend);
  }
  return timings;
}

}  // namespace knobwise
