#include "tuner/evaluation/evaluator.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "kernels/timing.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/messages.h"

namespace knobwise {
namespace {

using nlohmann::json;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kExclusiveBatch = 8;
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
      lanes_.push_back({group, MeasuringWorker(options_.executable, device, setup)});
  }
  for (Lane& lane : lanes_) lane.worker.launch();
  for (Lane& lane : lanes_) lane.worker.wait_until_open();
  opened_ = Clock::now();
}

std::size_t Evaluator::depth(std::size_t group) const {
  if (!options_.overlap) return 1;
  if (options_.groups[group].exclusive()) return batch(group);
  return 2 * slots_.size() + 4 * options_.groups[group].names.size();
}

// The first ones soon, then more at a time, so that few cores wait at the end of a batch.
std::size_t Evaluator::batch(std::size_t group) const {
  return groups_[group].longest_seconds > 0 ? kExclusiveBatch : slots_.size();
}

std::size_t Evaluator::compiling() const {
  return std::count_if(slots_.begin(), slots_.end(),
                       [](const CompileSlot& slot) { return slot.request.has_value(); });
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

bool Evaluator::still_to_compile(std::size_t group) const {
  const auto of_group = [group](const EvaluationRequest& request) { return request.group == group; };
  return std::any_of(compile_queue_.begin(), compile_queue_.end(), of_group) ||
         std::any_of(slots_.begin(), slots_.end(),
                     [&](const CompileSlot& slot) { return slot.request && of_group(*slot.request); });
}

// Whether an exclusive group has enough to measure for compiling to pause.
bool Evaluator::due(std::size_t group) const {
  if (!options_.groups[group].exclusive()) return false;
  const std::size_t ready = groups_[group].ready.size();
  return ready >= batch(group) || (ready > 0 && !still_to_compile(group));
}

void Evaluator::start_compiling() {
  const auto exclusive_work = [this](const Lane& lane) {
    return options_.groups[lane.group].exclusive() && (lane.measuring || !groups_[lane.group].ready.empty());
  };
  if (draining_) draining_ = std::any_of(lanes_.begin(), lanes_.end(), exclusive_work);
  for (std::size_t group = 0; group < groups_.size(); ++group) draining_ = draining_ || due(group);
  for (CompileSlot& slot : slots_) {
    if (compile_queue_.empty() || draining_) return;
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
    if (options_.groups[lane.group].exclusive() && (!draining_ || compiling() > 0)) continue;
    lane.measuring = std::move(group.ready.front());
    group.ready.pop_front();
    TimingOptions timing = options_.timing;
    timing.abandon_above_us = kHopeless * group.best_us;
    timing.beaten_above_us = kBeaten * group.best_us;
    lane.started = Clock::now();
    lane.worker.process().send({{"evaluate", measure_request(*lane.measuring, timing)}});
  }
}

void Evaluator::finish_compile(CompileSlot& slot, const json& reply) {
  if (reply.contains("error")) throw UserError(reply.at("error").get<std::string>());
  if (!reply.contains("code")) {
    fail_compile(slot, parse_trial_status(reply.at("status").get<std::string>()),
                 reply.at("reason").get<std::string>());
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
  results_.push_back({std::move(lane.measuring->request), std::move(trial)});
  lane.measuring.reset();
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

double Evaluator::trial_limit_seconds(std::size_t group) const {
  // Runs of a trial: three verifications, warm-up, at least one sample. Until a best is known the limit
  // supposes no more than 1 GFLOP/s on a CPU and 100 GFLOP/s on a GPU, or a minute for a user's kernel.
  constexpr double kRuns = 8;
  constexpr double kUserRunSeconds = 60;
  const double slowest = info(group).backend == Backend::cuda ? 1e11 : 1e9;
  double run_seconds =
      options_.kernel ? kUserRunSeconds : static_cast<double>(options_.problem.flops()) / slowest;
  const Group& state = groups_[group];
  if (state.best_us > 0) run_seconds = std::min(run_seconds, 50 * state.best_us * 1e-6);
  const double limit = options_.run_limit_seconds + options_.timing.max_seconds + kRuns * run_seconds;
  // What went well tells how long a trial takes with all that belongs to it.
  constexpr double kTimesLongest = 10, kAtLeastSeconds = 4;
  if (state.longest_seconds == 0) return limit;
  return std::min(limit, kAtLeastSeconds + kTimesLongest * state.longest_seconds);
}

Evaluator::Clock::time_point Evaluator::next_limit() const {
  Clock::time_point next = Clock::time_point::max();
  for (const CompileSlot& slot : slots_) {
    if (slot.request) next = std::min(next, after(slot.started, options_.compile_limit_seconds));
  }
  for (const Lane& lane : lanes_) {
    if (lane.measuring) next = std::min(next, after(lane.started, trial_limit_seconds(lane.group)));
  }
  return next;
}

void Evaluator::check_limits() {
  for (CompileSlot& slot : slots_) {
    if (!slot.request || seconds_since(slot.started) < options_.compile_limit_seconds) continue;
    slot.worker.reset();
    fail_compile(slot, TrialStatus::compile_timeout,
                 fmt::format("the compiler was stopped after {:.0f} s", options_.compile_limit_seconds));
  }
  for (Lane& lane : lanes_) {
    const double limit = trial_limit_seconds(lane.group);
    if (!lane.measuring || seconds_since(lane.started) < limit) continue;
    lane.worker.launch();
    fail_measure(lane, TrialStatus::timeout, fmt::format("stopped after {:.1f} s", limit));
    lane.worker.wait_until_open();
  }
}

void Evaluator::read_slot(CompileSlot& slot) {
  if (!slot.worker->reader().fill()) {
    const std::string how = slot.worker->reap();
    slot.worker.reset();
    fail_compile(slot, TrialStatus::compile_crashed, fmt::format("the compiling process ended: {}", how));
  } else if (const auto reply = slot.worker->reader().next()) {
    finish_compile(slot, *reply);
  }
}

void Evaluator::read_lane(Lane& lane) {
  WorkerProcess& process = lane.worker.process();
  if (!process.reader().fill()) {
    fail_measure(lane, TrialStatus::crashed, fmt::format("the measuring process ended: {}", process.reap()));
    lane.worker.restart();
  } else if (const auto reply = process.reader().next()) {
    finish_measure(lane, *reply);
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
  const double limit = trial_limit_seconds(lane.group);
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
    result.reason = fmt::format("the measuring process ended: {}", process.reap());
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
