#include "tuner/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>

#include "db/identifiers.h"
#include "kernels/family.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/evaluator.h"
#include "tuner/evaluation/messages.h"
#include "tuner/strategies/strategy.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFinalists = 5;
constexpr double kFinalistMargin = 1.05;  // of the best time: whoever is within may be the winner in truth
constexpr int kFinalRounds = 3;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The search of one family's space.
struct FamilySearch {
  const KernelFamily* family;
  BoundSpace space;
  std::unique_ptr<Strategy> strategy;
  std::int64_t id = 0;
  std::uint64_t default_index = 0;
  std::unordered_set<std::uint64_t> proposed{};  // the default first, whatever the strategy
  bool exhausted = false;
  std::map<std::string, TrialRecord> finished{};  // by configuration, from earlier sessions
};

class Session {
 public:
  Session(Store& store, const Problem& problem, const SessionOptions& options, SessionListener& listener)
      : store_(store), problem_(problem), options_(options), listener_(listener), start_(Clock::now()) {}

  SessionResult run();

 private:
  void choose_families();
  void add_family(const KernelFamily& family);
  void register_session();
  EvaluatorOptions evaluator_options() const;
  std::int64_t planned_trials() const;
  bool out_of_budget() const;
  void search(Evaluator& evaluator);
  void store(EvaluationResult& finished, const FamilySearch& search);
  void pump(Evaluator& evaluator);
  std::optional<std::uint64_t> propose(FamilySearch& search);
  FamilySearch* next_search();
  void handle(Evaluator& evaluator, FamilySearch& search, std::uint64_t index, TrialRecord trial,
              bool reused);
  void retime_finalists(Evaluator& evaluator);
  void record_baselines();
  void find_best();
  bool accepts(const TrialRecord& trial) const { return trial.timing && meets(trial.errors, limits_); }
  bool interrupted() const { return options_.interrupted && *options_.interrupted; }

  Store& store_;
  const Problem& problem_;
  const SessionOptions& options_;
  SessionListener& listener_;
  Clock::time_point start_;
  AccuracyLimits limits_;
  std::vector<FamilySearch> searches_;
  std::size_t turn_ = 0;
  std::map<std::uint64_t, std::pair<FamilySearch*, std::uint64_t>> in_flight_;
  std::uint64_t next_id_ = 0;
  std::int64_t device_ = 0, environment_ = 0, problem_id_ = 0;
  std::int64_t proposed_ = 0, done_ = 0, order_ = 0;
  std::vector<std::pair<FamilySearch*, TrialRecord>> accepted_;
  double best_us_ = 0;
  bool measured_new_ = false;
  SessionResult result_;
};

void Session::add_family(const KernelFamily& family) {
  if (const auto reason = family.unsupported_reason(problem_, options_.info)) {
    listener_.note(fmt::format("{} is left out: {}", family.name(), *reason));
    return;
  }
  BoundSpace space = bind_space(family, problem_, options_.info);
  if (space.empty()) {
    listener_.note(fmt::format("{} is left out: its constraints leave no configuration for this problem",
                               family.name()));
    return;
  }
  // A library's few algorithms are tried whole: they are the baseline.
  const std::string strategy = family.builtin() ? "exhaustive" : options_.strategy;
  FamilySearch search{&family, space, make_strategy(strategy, space, options_.seed)};
  search.default_index = space.default_index();
  searches_.push_back(std::move(search));
}

void Session::choose_families() {
  const Backend backend = options_.info.backend;
  if (!options_.families.empty()) {
    for (const std::string& name : options_.families) {
      const KernelFamily* family = find_family(backend, name);
      if (!family) {
        std::string known;
        for (const KernelFamily* f : families(backend))
          known += fmt::format("{}{}", known.empty() ? "" : ", ", f->name());
        throw UserError(
            fmt::format("--family: {} has no family '{}'; it has: {}", to_string(backend), name, known));
      }
      add_family(*family);
    }
  } else {
    for (const KernelFamily* family : families(backend)) {
      if (family->name() != "reference") add_family(*family);
    }
    const bool searched = std::any_of(searches_.begin(), searches_.end(),
                                      [](const FamilySearch& search) { return !search.family->builtin(); });
    if (!searched) add_family(*find_family(backend, "reference"));
  }
  if (searches_.empty())
    throw UserError(fmt::format("no kernel family can run '{}' on this device", problem_.to_string()));
}

void Session::register_session() {
  device_ = store_.intern_device(device_record(options_.info));
  environment_ = store_.intern_environment(environment_record(options_.info));
  problem_id_ = store_.intern_problem(problem_record(problem_));
  for (FamilySearch& search : searches_) {
    search.id = store_.intern_family(family_record(*search.family));
    search.finished = store_.finished_trials(device_, environment_, problem_id_, search.id);
  }
  SessionRecord record;
  record.uuid = make_uuid();
  record.device = device_, record.environment = environment_, record.problem = problem_id_;
  record.strategy = options_.strategy;
  record.seed = options_.seed;
  record.max_trials = options_.max_trials, record.max_seconds = options_.max_seconds;
  record.accuracy = options_.accuracy.to_string();
  record.started = utc_now();
  record.command_line = options_.command_line;
  record.host = host_name();
  result_.id = store_.begin_session(record);
}

EvaluatorOptions Session::evaluator_options() const {
  EvaluatorOptions evaluator;
  evaluator.executable = options_.executable;
  evaluator.device = options_.device;
  evaluator.info = options_.info;
  evaluator.problem = problem_;
  evaluator.seed = options_.seed;
  evaluator.jobs = options_.jobs;
  evaluator.compile_limit_seconds = options_.compile_limit_seconds;
  evaluator.run_limit_seconds = options_.run_limit_seconds;
  evaluator.exclusive_measuring = options_.info.backend == Backend::cpu;
  evaluator.interrupted = options_.interrupted;
  return evaluator;
}

// Built-in families come besides the budget; 0 when only time ends the session.
std::int64_t Session::planned_trials() const {
  std::int64_t besides = 0, searchable = 0;
  for (const FamilySearch& search : searches_) {
    const std::int64_t size =
        static_cast<std::int64_t>(std::min<std::uint64_t>(search.space.size(), std::int64_t{1} << 62));
    (search.family->builtin() ? besides : searchable) += std::min(size, (std::int64_t{1} << 61) - 1);
  }
  if (options_.max_trials) return besides + std::min(*options_.max_trials, searchable);
  return options_.max_seconds ? 0 : besides + searchable;
}

bool Session::out_of_budget() const {
  return options_.max_seconds && seconds_since(start_) >= *options_.max_seconds;
}

std::optional<std::uint64_t> Session::propose(FamilySearch& search) {
  if (search.proposed.empty()) {
    search.proposed.insert(search.default_index);
    return search.default_index;
  }
  while (true) {
    const std::vector<std::uint64_t> proposals = search.strategy->ask(1);
    if (proposals.empty()) break;
    if (search.proposed.insert(proposals.front()).second) return proposals.front();
  }
  search.exhausted = true;
  return std::nullopt;
}

// Built-in families first, then the searched ones in turn.
FamilySearch* Session::next_search() {
  for (FamilySearch& search : searches_) {
    if (search.family->builtin() && !search.exhausted) return &search;
  }
  if (options_.max_trials && proposed_ >= *options_.max_trials) return nullptr;
  for (std::size_t i = 0; i < searches_.size(); ++i) {
    FamilySearch& search = searches_[turn_++ % searches_.size()];
    if (!search.family->builtin() && !search.exhausted) return &search;
  }
  return nullptr;
}

void Session::pump(Evaluator& evaluator) {
  while (evaluator.pending() < evaluator.depth() && !out_of_budget() && !interrupted()) {
    FamilySearch* search = next_search();
    if (!search) return;
    const std::optional<std::uint64_t> index = propose(*search);
    if (!index) continue;
    if (!search->family->builtin()) ++proposed_;
    Configuration configuration = search->space.configuration(*index);
    if (const auto known = search->finished.find(configuration.to_json()); known != search->finished.end()) {
      handle(evaluator, *search, *index, known->second, true);
      continue;
    }
    in_flight_[next_id_] = {search, *index};
    evaluator.submit({next_id_++, search->family, std::move(configuration)});
  }
}

void Session::handle(Evaluator& evaluator, FamilySearch& search, std::uint64_t index, TrialRecord trial,
                     bool reused) {
  TrialEvent event;
  event.family = search.family->name();
  event.accepted = accepts(trial);
  event.reused = reused;
  const double time = event.accepted ? trial.timing->time_us : 0;
  event.improved = event.accepted && (best_us_ == 0 || time < best_us_);
  if (event.improved) {
    best_us_ = time;
    evaluator.set_best(time);
  }
  Observation observation{index};
  if (event.accepted) {
    observation.time_us = time;
    accepted_.push_back({&search, trial});
  }
  search.strategy->tell(observation);
  ++done_;
  if (trial.status != TrialStatus::ok) ++result_.failed;
  ++(reused ? result_.reused : result_.evaluated);
  event.trial = &trial;
  event.best_us = best_us_;
  event.done = done_;
  event.total = planned_trials();
  event.seconds = seconds_since(start_);
  listener_.trial(event);
}

void Session::retime_finalists(Evaluator& evaluator) {
  if (!measured_new_ || accepted_.empty() || interrupted()) return;
  std::sort(accepted_.begin(), accepted_.end(),
            [](const auto& a, const auto& b) { return a.second.timing->time_us < b.second.timing->time_us; });
  std::vector<EvaluationRequest> finalists;
  for (const auto& [search, trial] : accepted_) {
    if (finalists.size() == kFinalists || trial.timing->time_us > kFinalistMargin * best_us_) break;
    finalists.push_back({finalists.size(), search->family, Configuration::from_json(trial.configuration)});
  }
  if (finalists.size() < 2) return;
  listener_.note(fmt::format("timing the {} fastest again, in turn", finalists.size()));
  const auto timings = evaluator.retime(finalists, kFinalRounds);
  for (std::size_t i = 0; i < finalists.size(); ++i) {
    if (timings[i])
      store_.update_timing(accepted_[i].second.id, timing_record(*timings[i], options_.info.backend));
  }
}

void Session::record_baselines() {
  const auto put = [this](const std::string& name, const TrialRecord& trial) {
    BaselineRecord baseline;
    baseline.device = device_, baseline.environment = environment_, baseline.problem = problem_id_;
    baseline.name = name;
    baseline.timing = *trial.timing;
    baseline.errors = trial.errors;
    baseline.started = trial.started;
    store_.put_baseline(baseline);
    result_.baselines.push_back(std::move(baseline));
  };
  for (const FamilySearch& search : searches_) {
    const TrialRecord* chosen = nullptr;
    const std::string default_configuration = search.space.configuration(search.default_index).to_json();
    for (const auto& [owner, trial] : accepted_) {
      if (owner != &search) continue;
      if (search.family->builtin()) {
        if (!chosen || trial.timing->time_us < chosen->timing->time_us) chosen = &trial;
      } else if (trial.configuration == default_configuration) {
        chosen = &trial;
      }
    }
    if (chosen)
      put(fmt::format("{}{}", search.family->name(), search.family->builtin() ? "" : " default"), *chosen);
  }
}

void Session::find_best() {
  const CurrentVersions current(current_families(options_.info.backend), environment_record(options_.info));
  result_.best = store_.best(problem_id_, device_, limits_, current).trial;
  if (result_.best) result_.best_family = store_.family(result_.best->family).name;
}

// Completes what the evaluator found out and commits it.
void Session::store(EvaluationResult& finished, const FamilySearch& search) {
  TrialRecord& trial = finished.trial;
  const Configuration& configuration = finished.request.configuration;
  trial.session = result_.id;
  trial.device = device_, trial.environment = environment_, trial.problem = problem_id_;
  trial.family = search.id;
  trial.configuration = configuration.to_json();
  if (const Value* precision = configuration.find("precision")) trial.precision = to_string(*precision);
  const double measuring = trial.verify_seconds.value_or(0) + trial.measure_seconds.value_or(0);
  trial.started = utc_text(std::chrono::system_clock::now() -
                           std::chrono::milliseconds(static_cast<std::int64_t>(1000 * measuring)));
  trial.wall_seconds = seconds_since(start_);
  trial.session_order = order_++;
  trial.id = store_.insert_trial(trial).id;
  measured_new_ = true;
}

// Until the budget, the spaces or the user end it.
void Session::search(Evaluator& evaluator) {
  const Clock::time_point deadline = options_.max_seconds
                                         ? start_ + std::chrono::duration_cast<Clock::duration>(
                                                        std::chrono::duration<double>(*options_.max_seconds))
                                         : Clock::time_point::max();
  while (true) {
    pump(evaluator);
    if (out_of_budget() || interrupted()) evaluator.cancel_queued();
    if (evaluator.pending() == 0 || interrupted()) return;
    auto finished = evaluator.wait(out_of_budget() ? Clock::time_point::max() : deadline);
    if (!finished) continue;
    const auto [family, index] = in_flight_.at(finished->request.id);
    in_flight_.erase(finished->request.id);
    store(*finished, *family);
    handle(evaluator, *family, index, finished->trial, false);
  }
}

SessionResult Session::run() {
  limits_ = accuracy_limits(options_.accuracy);
  choose_families();
  Evaluator evaluator(evaluator_options());
  register_session();
  try {
    search(evaluator);
    retime_finalists(evaluator);
    record_baselines();
    find_best();
  } catch (...) {
    store_.finish_session(result_.id, SessionState::failed);
    throw;
  }
  result_.state = interrupted() ? SessionState::interrupted : SessionState::finished;
  store_.finish_session(result_.id, result_.state);
  result_.seconds = seconds_since(start_);
  result_.busy_share = evaluator.device_busy_seconds() / result_.seconds;
  return result_;
}

}  // namespace

SessionResult tune(Store& store, const Problem& problem, const SessionOptions& options,
                   SessionListener& listener) {
  return Session(store, problem, options, listener).run();
}

}  // namespace knobwise
