#include "tuner/evaluation/evaluator.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "kernels/cpu/temporary_directory.h"
#include "kernels/timing.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

// What is slower than the best by these factors in every run is timed no further: the first after one sample
// (or one run, if it is far slower), the second after the fewest samples.
constexpr double kHopeless = 3, kBeaten = 1.15;

double seconds_since(Evaluator::Clock::time_point start) {
  return Seconds(Evaluator::Clock::now() - start).count();
}

Evaluator::Clock::time_point after(Evaluator::Clock::time_point start, double seconds) {
  return start + std::chrono::duration_cast<Evaluator::Clock::duration>(Seconds(seconds));
}

}  // namespace

Evaluator::Evaluator(EvaluatorOptions options)
    : options_(std::move(options)), slots_(std::max(1, options_.jobs)), groups_(options_.groups.size()) {
  json setup = problem_message();
  setup["seed"] = options_.seed;
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    for (const std::string& device : options_.groups[group].names)
      lanes_.push_back({group, MeasuringWorker(options_.executable, device, setup, options_.interrupted)});
  }
  for (Lane& lane : lanes_) lane.worker.launch();
  for (Lane& lane : lanes_) lane.worker.wait_until_open();
  opened_ = Clock::now();
}

Evaluator::~Evaluator() {
  slots_.clear();
  remove_abandoned_directories();  // of compilers that were at work
}

std::size_t Evaluator::depth(std::size_t group) const {
  return options_.overlap ? 2 * slots_.size() + 4 * options_.groups[group].names.size() : 1;
}

Activity Evaluator::activity(std::size_t group) const {
  Activity activity;
  for (const CompileSlot& slot : slots_) {
    if (!slot.request || slot.request->group != group) continue;
    ++activity.compiling;
    activity.compiling_seconds = std::max(activity.compiling_seconds, seconds_since(slot.started));
  }
  for (const Lane& lane : lanes_) {
    if (!lane.measuring || lane.group != group) continue;
    ++activity.measuring;
    activity.measuring_seconds = std::max(activity.measuring_seconds, seconds_since(lane.started));
  }
  return activity;
}

void Evaluator::tell_time(std::size_t group, const KernelFamily& family, double time_us) {
  const auto lower = [time_us](double& best) { best = best > 0 ? std::min(best, time_us) : time_us; };
  lower(groups_[group].best_us);
  if (family.builtin()) lower(groups_[group].builtin_best_us[&family]);
}

// What a configuration is given up against; 0 if against nothing.
double Evaluator::rival_us(const EvaluationRequest& request) const {
  const Group& group = groups_[request.group];
  if (request.baseline) return 0;
  if (!request.family->builtin()) return group.best_us;
  const auto own = group.builtin_best_us.find(request.family);
  return own == group.builtin_best_us.end() ? 0 : own->second;
}

// Whether a request whose worker was killed from outside, by whoever needed the memory for example, is tried
// once more.
bool Evaluator::second_chance(const EvaluationRequest& request) {
  return killed_once_.insert({request.group, request.id}).second;
}

double Evaluator::busy_share(std::size_t group) const {
  const double devices = static_cast<double>(options_.groups[group].names.size());
  return groups_[group].busy_seconds / (devices * seconds_since(opened_));
}

void Evaluator::submit(EvaluationRequest request) {
  ++groups_[request.group].pending;
  if (request.family->builtin()) {
    groups_[request.group].ready.push_back({std::move(request), std::nullopt, 0});
  } else {
    compile_queue_.push_back(std::move(request));
  }
}

json Evaluator::problem_message() const {
  json message = {{"problem", options_.problem.to_string()}};
  if (options_.kernel)
    message["kernel"] = {{"file", options_.kernel->file().string()},
                         {"hash", options_.kernel->source_hash()}};
  return message;
}

json Evaluator::compile_request(const EvaluationRequest& request) const {
  json message = problem_message();
  message.update({{"id", request.id},
                  {"device", to_message(info(request.group))},
                  {"family", request.family->name()},
                  {"configuration", request.configuration.to_json()}});
  return message;
}

json Evaluator::measure_request(const Compiled& compiled, const TimingOptions& timing) const {
  json body = {{"family", compiled.request.family->name()},
               {"configuration", compiled.request.configuration.to_json()},
               {"timing", to_message(timing)}};
  if (compiled.code) body["code"] = *compiled.code;
  return body;
}

void Evaluator::pause_compiling() {
  paused_ = Clock::now();
  for (CompileSlot& slot : slots_) {
    if (slot.request) slot.worker->pause();
  }
}

void Evaluator::resume_compiling() {
  for (CompileSlot& slot : slots_) {
    if (slot.worker) slot.worker->resume();  // also one whose answer had come before the pause
    slot.started += Clock::now() - *paused_;
  }
  paused_.reset();
}

// Lets one of those that want to time on the processor do it, with nothing else going on.
void Evaluator::share_quiet() {
  if (quiet_) return;
  const auto next = std::find_if(lanes_.begin(), lanes_.end(),
                                 [](const Lane& lane) { return lane.wants_quiet.has_value(); });
  if (next == lanes_.end()) {
    if (paused_) resume_compiling();
    return;
  }
  if (!paused_) pause_compiling();
  quiet_ = &*next;
  next->started += Clock::now() - *next->wants_quiet;
  next->wants_quiet.reset();
  next->worker.process().send(json::object());
}

void Evaluator::start_compiling() {
  if (paused_) return;
  for (CompileSlot& slot : slots_) {
    if (compile_queue_.empty()) return;
    if (slot.request) continue;
    if (!slot.worker) slot.worker.emplace(WorkerProcess::start(options_.executable, "compile"));
    slot.request = std::move(compile_queue_.front());
    compile_queue_.pop_front();
    slot.started = Clock::now();
    slot.worker->send(compile_request(*slot.request));  // a dead worker shows when it is read
  }
}

void Evaluator::start_measuring() {
  for (Lane& lane : lanes_) {
    Group& group = groups_[lane.group];
    if (lane.measuring || group.ready.empty()) continue;
    lane.measuring = std::move(group.ready.front());
    group.ready.pop_front();
    TimingOptions timing = options_.timing;
    timing.abandon_above_us = kHopeless * rival_us(lane.measuring->request);
    timing.beaten_above_us = kBeaten * rival_us(lane.measuring->request);
    lane.started = Clock::now();
    json request = measure_request(*lane.measuring, timing);
    request["quiet"] = options_.groups[lane.group].exclusive();
    lane.worker.process().send({{"evaluate", std::move(request)}});
  }
}

void Evaluator::finish_compile(CompileSlot& slot, const json& reply) {
  if (reply.contains("error")) throw UserError(reply.at("error").get<std::string>());
  if (!reply.contains("code")) {
    const auto status = parse_trial_status(reply.at("status").get<std::string>());
    if (status == TrialStatus::compile_crashed && second_chance(*slot.request)) {
      compile_queue_.push_front(std::move(*slot.request));
      slot.request.reset();
      return;
    }
    fail_compile(slot, status, reply.at("reason").get<std::string>());
    return;
  }
  Group& group = groups_[slot.request->group];
  group.ready.push_back({std::move(*slot.request), reply.at("code"), seconds_since(slot.started)});
  slot.request.reset();
}

void Evaluator::fail_compile(CompileSlot& slot, TrialStatus status, const std::string& reason) {
  EvaluationResult result{std::move(*slot.request), {}};
  slot.request.reset();
  result.trial.status = status;
  result.trial.reason = reason;
  result.trial.compile_seconds = seconds_since(slot.started);
  results_.push_back(std::move(result));
}

void Evaluator::push_result(Lane& lane, TrialRecord trial) {
  Group& group = groups_[lane.group];
  const double seconds = seconds_since(lane.started);
  group.busy_seconds += seconds;
  if (trial.status == TrialStatus::ok) group.longest_seconds = std::max(group.longest_seconds, seconds);
  if (lane.measuring->code) trial.compile_seconds = lane.measuring->compile_seconds;
  results_.push_back({std::move(lane.measuring->request), std::move(trial), seconds});
  release(lane);
}

// The lane measures nothing more.
void Evaluator::release(Lane& lane) {
  lane.measuring.reset();
  lane.wants_quiet.reset();
  if (quiet_ == &lane) quiet_ = nullptr;
  share_quiet();
}

void Evaluator::finish_measure(Lane& lane, const json& reply) {
  if (!reply.contains("trial")) {
    fail_measure(lane, parse_trial_status(reply.at("status").get<std::string>()),
                 reply.at("reason").get<std::string>());
    return;
  }
  TrialRecord trial = trial_from_message(reply.at("trial"));
  const TrialStatus status = trial.status;
  push_result(lane, std::move(trial));
  // After a fault the device's state is unknown: the next trial gets a fresh process.
  if (status == TrialStatus::crashed || status == TrialStatus::device_lost ||
      status == TrialStatus::out_of_bounds)
    lane.worker.restart();
}

void Evaluator::fail_measure(Lane& lane, TrialStatus status, const std::string& reason) {
  TrialRecord trial;
  trial.status = status;
  trial.reason = reason;
  push_result(lane, std::move(trial));
}

double Evaluator::trial_limit_seconds(const EvaluationRequest& request) const {
  // Runs of a trial: three verifications, warm-up, at least one sample. Until a best is known the limit
  // supposes no more than 1 GFLOP/s on a CPU and 100 GFLOP/s on a GPU, or a minute for a user's kernel.
  constexpr double kRuns = 8;
  constexpr double kUserRunSeconds = 60;
  const double slowest = info(request.group).backend == Backend::cuda ? 1e11 : 1e9;
  double run_seconds =
      options_.kernel ? kUserRunSeconds : static_cast<double>(options_.problem.flops()) / slowest;
  if (const double rival = rival_us(request); rival > 0)
    run_seconds = std::min(run_seconds, 50 * rival * 1e-6);
  const double limit = options_.run_limit_seconds + options_.timing.max_seconds + kRuns * run_seconds;
  // What went well tells how long a trial takes with all that belongs to it; but not how long a baseline may.
  constexpr double kTimesLongest = 10, kAtLeastSeconds = 4;
  const double longest = groups_[request.group].longest_seconds;
  if (longest == 0 || request.baseline || request.family->builtin()) return limit;
  return std::min(limit, kAtLeastSeconds + kTimesLongest * longest);
}

Evaluator::Clock::time_point Evaluator::next_limit() const {
  Clock::time_point next = Clock::time_point::max();
  for (const CompileSlot& slot : slots_) {
    if (slot.request && !paused_) next = std::min(next, after(slot.started, options_.compile_limit_seconds));
  }
  for (const Lane& lane : lanes_) {
    if (lane.measuring && !lane.wants_quiet)
      next = std::min(next, after(lane.started, trial_limit_seconds(lane.measuring->request)));
  }
  return next;
}

void Evaluator::check_limits() {
  for (CompileSlot& slot : slots_) {
    if (paused_ || !slot.request || seconds_since(slot.started) < options_.compile_limit_seconds) continue;
    slot.worker.reset();
    fail_compile(slot, TrialStatus::compile_timeout,
                 fmt::format("the compiler was stopped after {:.0f} s", options_.compile_limit_seconds));
  }
  for (Lane& lane : lanes_) {
    if (!lane.measuring || lane.wants_quiet) continue;
    const double limit = trial_limit_seconds(lane.measuring->request);
    if (seconds_since(lane.started) < limit) continue;
    lane.worker.launch();
    fail_measure(lane, TrialStatus::timeout, fmt::format("stopped after {:.1f} s", limit));
    lane.worker.wait_until_open();
  }
}

void Evaluator::read_slot(CompileSlot& slot) {
  if (!slot.worker->reader().fill()) {
    const WorkerEnd end = slot.worker->reap();
    slot.worker.reset();
    if (end.killed && second_chance(*slot.request)) {
      compile_queue_.push_front(std::move(*slot.request));
      slot.request.reset();
      return;
    }
    fail_compile(slot, TrialStatus::compile_crashed, fmt::format("the compiling process ended: {}", end.how));
  } else if (const auto reply = slot.worker->reader().next()) {
    finish_compile(slot, *reply);
  }
}

void Evaluator::read_lane(Lane& lane) {
  WorkerProcess& process = lane.worker.process();
  if (!process.reader().fill()) {
    const WorkerEnd end = process.reap();
    if (end.killed && second_chance(lane.measuring->request)) {
      groups_[lane.group].ready.push_front(std::move(*lane.measuring));
      release(lane);
    } else {
      fail_measure(lane, TrialStatus::crashed, fmt::format("the measuring process ended: {}", end.how));
    }
    lane.worker.restart();
  } else if (const auto reply = process.reader().next()) {
    if (!reply->contains("quiet")) return finish_measure(lane, *reply);
    lane.wants_quiet = Clock::now();
    share_quiet();
  }
}

void Evaluator::read_workers(Clock::time_point deadline) {
  std::vector<pollfd> waiting;
  std::vector<CompileSlot*> slots;
  std::vector<Lane*> lanes;
  for (CompileSlot& slot : slots_) {
    if (!slot.request) continue;
    waiting.push_back({slot.worker->descriptor(), POLLIN, 0});
    slots.push_back(&slot);
  }
  for (Lane& lane : lanes_) {
    if (!lane.measuring) continue;
    waiting.push_back({lane.worker.process().descriptor(), POLLIN, 0});
    lanes.push_back(&lane);
  }
  const auto left = std::min(deadline, next_limit()) - Clock::now();
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  if (poll(waiting.data(), waiting.size(),
           static_cast<int>(std::clamp<long long>(milliseconds, 0, 60'000))) <= 0)
    return;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (waiting[i].revents) read_slot(*slots[i]);
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (waiting[slots.size() + i].revents) read_lane(*lanes[i]);
  }
}

std::optional<EvaluationResult> Evaluator::wait(Clock::time_point deadline) {
  while (true) {
    start_compiling();
    start_measuring();
    if (!results_.empty()) {
      EvaluationResult result = std::move(results_.front());
      results_.pop_front();
      --groups_[result.request.group].pending;
      return result;
    }
    const bool idle =
        std::all_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.pending == 0; });
    if (idle || interrupted() || Clock::now() >= deadline) return std::nullopt;
    read_workers(deadline);
    check_limits();
  }
}

void Evaluator::cancel_queued(std::size_t group) {
  std::size_t dropped = std::erase_if(
      compile_queue_, [group](const EvaluationRequest& request) { return request.group == group; });
  dropped += groups_[group].ready.size();
  groups_[group].ready.clear();
  for (CompileSlot& slot : slots_) {
    if (!slot.request || slot.request->group != group) continue;
    slot.worker.reset();
    slot.request.reset();
    ++dropped;
  }
  groups_[group].pending -= dropped;
}

std::optional<Evaluator::Compiled> Evaluator::compile_again(const EvaluationRequest& request) {
  if (request.family->builtin()) return Compiled{request, std::nullopt, 0};
  CompileSlot& slot = slots_.front();
  if (!slot.worker) slot.worker.emplace(WorkerProcess::start(options_.executable, "compile"));
  slot.worker->send(compile_request(request));
  const auto reply = slot.worker->reply_within(options_.compile_limit_seconds);
  if (!reply) slot.worker.reset();
  if (!reply || !reply->contains("code")) return std::nullopt;
  return Compiled{request, reply->at("code"), 0};
}

Retiming Evaluator::time_once(Lane& lane, const Compiled& compiled) {
  WorkerProcess& process = lane.worker.process();
  const double limit = trial_limit_seconds(compiled.request);
  const Clock::time_point started = Clock::now();
  process.send({{"time", measure_request(compiled, TimingOptions{})}});
  const auto reply = process.reply_within(limit);
  groups_[lane.group].busy_seconds += seconds_since(started);
  Retiming result;
  if (reply && reply->contains("timing")) {
    result.timing = timing_from_message(reply->at("timing"));
    return result;
  }
  if (reply) {
    result.status = parse_trial_status(reply->at("status").get<std::string>());
    result.reason = reply->at("reason").get<std::string>();
  } else if (process.closed()) {
    result.status = TrialStatus::crashed;
    result.reason = fmt::format("the measuring process ended: {}", process.reap().how);
  } else {
    result.status = TrialStatus::timeout;
    result.reason = fmt::format("stopped after {:.1f} s", limit);
  }
  lane.worker.restart();
  return result;
}

// A process may also be killed from outside: a configuration that was right before gets another chance.
Retiming Evaluator::time_again(Lane& lane, const Compiled& compiled) {
  Retiming result = time_once(lane, compiled);
  return result.status == TrialStatus::crashed ? time_once(lane, compiled) : result;
}

std::vector<Retiming> Evaluator::retime(const std::vector<EvaluationRequest>& requests, int rounds,
                                        Clock::time_point deadline) {
  std::vector<Retiming> results(requests.size());
  if (requests.empty()) return results;
  const std::size_t group = requests.front().group;
  Lane& lane = *std::find_if(lanes_.begin(), lanes_.end(),
                             [group](const Lane& candidate) { return candidate.group == group; });
  std::vector<std::optional<Compiled>> compiled;
  for (const EvaluationRequest& request : requests) compiled.push_back(compile_again(request));
  bool complete = true;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (!compiled[i] || results[i].status != TrialStatus::ok) continue;
      if (interrupted() || Clock::now() >= deadline) {
        complete = complete && round > 0;
        continue;
      }
      Retiming again = time_again(lane, *compiled[i]);
      results[i].status = again.status;
      results[i].reason = again.reason;
      if (!again.timing) {
        results[i].timing.reset();
        continue;
      }
      if (!results[i].timing) results[i].timing.emplace();
      std::vector<float>& samples = results[i].timing->samples_us;
      samples.insert(samples.end(), again.timing->samples_us.begin(), again.timing->samples_us.end());
    }
  }
  for (Retiming& result : results) {
    if (!complete) result.timing.reset();
    if (result.timing) summarise(*result.timing, info(group).backend);
  }
  return results;
}

}  // namespace knobwise
