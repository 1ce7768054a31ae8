#include "tuner/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>

#include "db/identifiers.h"
#include "kernels/code_cache.h"
#include "kernels/family.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/evaluation/evaluator.h"
#include "tuner/evaluation/messages.h"
#include "tuner/family_turns.h"
#include "tuner/strategies/strategy.h"
#include "tuner/warm_start.h"

namespace knobwise {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFinalists = 5;
constexpr double kFinalistMargin = 1.05;  // of the best time: whoever is within may be the winner in truth
constexpr int kFinalRounds = 3;
constexpr double kBuiltinShare = 0.25;  // of a session's time
constexpr auto kHeartbeat = std::chrono::seconds(1);

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
  std::deque<std::uint64_t> given{};             // where the session is about these alone
  bool exhausted = false;
  double best_us = 0;                             // of the accepted trials; 0: none
  std::map<std::string, TrialRecord> finished{};  // by configuration, from earlier sessions
};

// One problem on one kind of device.
class Session {
 public:
  /// Throws UserError when no family can be searched.
  Session(Store& store, const Problem& problem, const SessionOptions& options, SessionListener& listener,
          const DeviceGroup& devices, std::size_t group, Clock::time_point start);

  /// Registers the session in the database; the devices are ready.
  void begin();
  /// Submits as much as keeps the evaluator busy; drops what waits when the budget is spent.
  void pump(Evaluator& evaluator);
  /// Tells the listener what is under way.
  void report_waiting(const Evaluator& evaluator);
  /// Stores a result of this session.
  void take(Evaluator& evaluator, EvaluationResult finished);
  /// When the search must end by the clock; some of the time is kept for the finalists.
  Clock::time_point deadline() const;
  /// After the search: times the finalists again and sums up.
  void finish(Evaluator& evaluator);
  /// Marks an unfinished session as failed.
  void fail();
  SessionResult& result() { return result_; }

 private:
  void choose_families();
  void add_family(const KernelFamily& family);
  void add_given(const std::string& family, const Configuration& configuration);
  void suggest_starts();
  std::int64_t planned_trials() const;
  bool out_of_budget() const { return Clock::now() >= deadline(); }
  double retiming_seconds() const;
  void store(EvaluationResult& finished, const FamilySearch& search);
  void submit_more(Evaluator& evaluator);
  void note(const std::string& line);
  std::optional<std::uint64_t> propose(FamilySearch& search);
  FamilySearch* next_search();
  FamilySearch* next_default();
  FamilySearch* next_builtin();
  FamilySearch* next_in_turn();
  bool builtin_in_its_share() const;
  bool in_trial_budget() const {
    return !options_.max_trials || !options_.configurations.empty() || proposed_ < *options_.max_trials;
  }
  void fill(SessionProgress& progress) const;
  void handle(Evaluator& evaluator, FamilySearch& search, std::uint64_t index, TrialRecord trial,
              bool reused);
  void retime_finalists(Evaluator& evaluator);
  void record_baselines();
  std::optional<TrialRecord> best_at(const AccuracyLimits& limits) const;
  void find_best();
  void store_code();
  void store_code(const TrialRecord& trial);
  bool accepts(const TrialRecord& trial) const { return trial.timing && meets(trial.errors, limits_); }
  bool interrupted() const { return options_.interrupted && *options_.interrupted; }

  Store& store_;
  const Problem& problem_;
  const SessionOptions& options_;
  SessionListener& listener_;
  const DeviceGroup& devices_;
  std::size_t group_;
  Clock::time_point start_;
  std::string label_;  // of the devices, where there are several kinds
  AccuracyLimits limits_;
  std::vector<FamilySearch> searches_;
  std::size_t builtin_in_flight_ = 0;
  double builtin_seconds_ = 0;  // that devices spent on built-in families
  std::map<std::uint64_t, std::pair<FamilySearch*, std::uint64_t>> in_flight_;
  std::uint64_t next_id_ = 0;
  std::int64_t device_ = 0, environment_ = 0, problem_id_ = 0;
  std::int64_t proposed_ = 0, done_ = 0, order_ = 0;
  std::vector<std::pair<FamilySearch*, TrialRecord>> accepted_;
  double best_us_ = 0;
  double best_measuring_seconds_ = 0;  // how long timing the best took
  bool measured_new_ = false;
  bool running_ = false;
  SessionResult result_;
};

Session::Session(Store& store, const Problem& problem, const SessionOptions& options,
                 SessionListener& listener, const DeviceGroup& devices, std::size_t group,
                 Clock::time_point start)
    : store_(store),
      problem_(problem),
      options_(options),
      listener_(listener),
      devices_(devices),
      group_(group),
      start_(start),
      limits_(accuracy_limits(options.accuracy)) {
  result_.device = fmt::format("{}", fmt::join(devices.names, ","));
  result_.info = devices.info;
  if (devices.names.size() < options.devices.size()) label_ = result_.device;
  choose_families();
}

void Session::note(const std::string& line) {
  listener_.note(label_.empty() ? line : fmt::format("{}: {}", label_, line));
}

void Session::add_family(const KernelFamily& family) {
  if (const auto reason = family.unsupported_reason(problem_, devices_.info)) {
    note(fmt::format("{} is left out: {}", family.name(), *reason));
    return;
  }
  BoundSpace space = bind_space(family, problem_, devices_.info);
  if (space.empty()) {
    note(fmt::format("{} is left out: its constraints leave no configuration for this problem",
                     family.name()));
    return;
  }
  // A library's few configurations are tried whole: they are the baseline.
  const std::string strategy = family.builtin() ? "exhaustive" : options_.strategy;
  FamilySearch search{&family, space, make_strategy(strategy, space, options_.seed)};
  search.default_index = space.default_index();
  searches_.push_back(std::move(search));
}

const KernelFamily& named_family(Backend backend, const std::string& name) {
  if (const KernelFamily* family = find_family(backend, name)) return *family;
  std::string known;
  for (const KernelFamily* family : families(backend))
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family->name());
  throw UserError(
      fmt::format("--family: {} has no family '{}'; it has: {}", to_string(backend), name, known));
}

void Session::add_given(const std::string& family, const Configuration& configuration) {
  const auto of_family = [&family](const FamilySearch& search) { return search.family->name() == family; };
  auto search = std::find_if(searches_.begin(), searches_.end(), of_family);
  if (search == searches_.end()) {
    add_family(named_family(devices_.info.backend, family));
    search = std::find_if(searches_.begin(), searches_.end(), of_family);
    if (search == searches_.end()) return;
  }
  const auto index = search->space.index_of(configuration);
  if (!index) throw UserError(fmt::format("--configuration: {}", *search->space.violation(configuration)));
  if (search->proposed.insert(*index).second) search->given.push_back(*index);
}

void Session::choose_families() {
  const Backend backend = devices_.info.backend;
  if (!options_.configurations.empty()) {
    for (const auto& [family, configuration] : options_.configurations) add_given(family, configuration);
  } else if (!options_.families.empty()) {
    for (const std::string& name : options_.families) add_family(named_family(backend, name));
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

void Session::begin() {
  result_.opening_seconds = seconds_since(start_);
  device_ = store_.intern_device(device_record(devices_.info));
  environment_ = store_.intern_environment(environment_record(devices_.info));
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
  running_ = true;
  suggest_starts();
}

// Strategies hear what did well on neighbouring problems and on other devices.
void Session::suggest_starts() {
  for (FamilySearch& search : searches_) {
    if (search.family->builtin()) continue;
    std::string before = utc_now();
    for (const auto& [configuration, trial] : search.finished) before = std::min(before, trial.started);
    const auto starts =
        warm_starts(store_, {*search.family, problem_, devices_.info, search.space, limits_, before});
    search.strategy->suggest(starts);
  }
}

// Built-in families come besides the budget; 0 when only time ends the session.
std::int64_t Session::planned_trials() const {
  if (!options_.configurations.empty()) return static_cast<std::int64_t>(options_.configurations.size());
  std::int64_t besides = 0, searchable = 0;
  for (const FamilySearch& search : searches_) {
    const std::int64_t size =
        static_cast<std::int64_t>(std::min<std::uint64_t>(search.space.size(), std::int64_t{1} << 62));
    (search.family->builtin() ? besides : searchable) += std::min(size, (std::int64_t{1} << 61) - 1);
  }
  if (options_.max_trials) return besides + std::min(*options_.max_trials, searchable);
  return options_.max_seconds ? 0 : besides + searchable;
}

Clock::time_point after(Clock::time_point start, double seconds) {
  return start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// What timing the finalists again will take, as far as the trials tell; a quarter of the time at most.
double Session::retiming_seconds() const {
  const double each = best_measuring_seconds_ * kFinalRounds;
  const double finalists = static_cast<double>(std::min(accepted_.size(), kFinalists));
  return std::min(each * finalists, *options_.max_seconds / 4);
}

Clock::time_point Session::deadline() const {
  if (!options_.max_seconds) return Clock::time_point::max();
  return after(start_, *options_.max_seconds - retiming_seconds());
}

std::optional<std::uint64_t> Session::propose(FamilySearch& search) {
  if (!options_.configurations.empty()) {
    search.exhausted = search.given.empty();
    if (search.exhausted) return std::nullopt;
    const std::uint64_t index = search.given.front();
    search.given.pop_front();
    return index;
  }
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

// A searched family whose default configuration is still to come.
FamilySearch* Session::next_default() {
  const auto found = std::find_if(searches_.begin(), searches_.end(), [](const FamilySearch& search) {
    return !search.family->builtin() && search.proposed.empty();
  });
  return found == searches_.end() ? nullptr : &*found;
}

// One for each device at a time: nothing of them needs compiling.
FamilySearch* Session::next_builtin() {
  if (builtin_in_flight_ >= devices_.names.size()) return nullptr;
  const auto found = std::find_if(searches_.begin(), searches_.end(), [](const FamilySearch& search) {
    return search.family->builtin() && !search.exhausted;
  });
  return found == searches_.end() ? nullptr : &*found;
}

bool Session::builtin_in_its_share() const {
  return !options_.max_seconds || builtin_seconds_ < kBuiltinShare * *options_.max_seconds;
}

FamilySearch* Session::next_in_turn() {
  std::vector<FamilySearch*> searches;
  std::vector<FamilyTurns> turns;
  for (FamilySearch& search : searches_) {
    if (search.family->builtin() || search.exhausted) continue;
    searches.push_back(&search);
    turns.push_back({search.proposed.size(), search.best_us});
  }
  return searches.empty() ? nullptr : searches[next_family(turns)];
}

// The baselines first: the defaults, which are compiled while the built-in families begin.
FamilySearch* Session::next_search() {
  if (in_trial_budget()) {
    if (FamilySearch* search = next_default()) return search;
  }
  FamilySearch* builtin = next_builtin();
  if (builtin && (builtin->proposed.empty() || builtin_in_its_share())) return builtin;
  if (in_trial_budget()) {
    if (FamilySearch* search = next_in_turn()) return search;
  }
  return builtin;
}

void Session::pump(Evaluator& evaluator) {
  if (!out_of_budget() && !interrupted()) submit_more(evaluator);
  if (out_of_budget() || interrupted()) evaluator.cancel_queued(group_);
}

void Session::submit_more(Evaluator& evaluator) {
  while (evaluator.pending(group_) < evaluator.depth(group_) && !out_of_budget()) {
    FamilySearch* search = next_search();
    if (!search) return;
    const std::optional<std::uint64_t> index = propose(*search);
    if (!index) continue;
    const bool builtin = search->family->builtin();
    if (!builtin) ++proposed_;
    Configuration configuration = search->space.configuration(*index);
    if (const auto known = search->finished.find(configuration.to_json()); known != search->finished.end()) {
      handle(evaluator, *search, *index, known->second, true);
      continue;
    }
    builtin_in_flight_ += builtin;
    in_flight_[next_id_] = {search, *index};
    evaluator.submit({next_id_++, group_, search->family, std::move(configuration),
                      !options_.configurations.empty() || (!builtin && *index == search->default_index)});
  }
}

void Session::fill(SessionProgress& progress) const {
  progress.device = label_;
  progress.best_us = best_us_;
  progress.done = done_;
  progress.total = planned_trials();
  progress.seconds = seconds_since(start_);
}

void Session::report_waiting(const Evaluator& evaluator) {
  const Activity activity = evaluator.activity(group_);
  if (activity.compiling + activity.measuring == 0) return;
  WaitingEvent event;
  fill(event);
  event.compiling = activity.compiling, event.measuring = activity.measuring;
  event.compiling_seconds = activity.compiling_seconds;
  event.measuring_seconds = activity.measuring_seconds;
  listener_.waiting(event);
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
    best_measuring_seconds_ = trial.measure_seconds.value_or(0);
  }
  Observation observation{index};
  if (event.accepted) {
    observation.time_us = time;
    if (search.best_us == 0 || time < search.best_us) search.best_us = time;
    evaluator.tell_time(group_, *search.family, time);
    accepted_.push_back({&search, trial});
  }
  search.strategy->tell(observation);
  ++done_;
  if (trial.status != TrialStatus::ok) ++result_.failed;
  ++(reused ? result_.reused : result_.evaluated);
  event.trial = &trial;
  fill(event);
  listener_.trial(event);
}

void Session::retime_finalists(Evaluator& evaluator) {
  if (!measured_new_ || accepted_.empty() || interrupted()) return;
  std::sort(accepted_.begin(), accepted_.end(),
            [](const auto& a, const auto& b) { return a.second.timing->time_us < b.second.timing->time_us; });
  std::vector<EvaluationRequest> finalists;
  for (const auto& [search, trial] : accepted_) {
    if (finalists.size() == kFinalists || trial.timing->time_us > kFinalistMargin * best_us_) break;
    finalists.push_back(
        {finalists.size(), group_, search->family, Configuration::from_json(trial.configuration)});
  }
  if (finalists.size() < 2) return;
  note(fmt::format("timing the {} fastest again, in turn", finalists.size()));
  const auto limit = options_.max_seconds ? after(start_, *options_.max_seconds) : Clock::time_point::max();
  const std::vector<Retiming> again = evaluator.retime(finalists, kFinalRounds, limit);
  for (std::size_t i = 0; i < again.size(); ++i) {
    TrialRecord& trial = accepted_[i].second;
    if (again[i].timing) {
      trial.timing = timing_record(*again[i].timing, devices_.info.backend);
      store_.update_timing(trial.id, *trial.timing);
    } else if (again[i].status != TrialStatus::ok) {
      note(fmt::format("{} failed when timed again: {}", trial.configuration, again[i].reason));
      store_.mark_failed(trial.id, again[i].status, "when timed again: " + again[i].reason);
      trial.timing.reset();
      ++result_.failed;
    }
  }
  std::erase_if(accepted_, [](const auto& entry) { return !entry.second.timing; });
}

void Session::record_baselines() {
  if (!options_.configurations.empty()) return;
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

std::optional<TrialRecord> Session::best_at(const AccuracyLimits& limits) const {
  const CurrentVersions current(current_families(devices_.info.backend), environment_record(devices_.info));
  return store_.best(problem_id_, device_, limits, current).trial;
}

void Session::find_best() {
  result_.best = best_at(limits_);
  if (result_.best) result_.best_family = store_.family(result_.best->family).name;
}

// A search finds the best at other accuracies too, which a lookup may ask for.
void Session::store_code() {
  if (!options_.store_code) return;
  std::map<std::int64_t, TrialRecord> wanted;
  if (result_.best) wanted.emplace(result_.best->id, *result_.best);
  for (const AccuracyRequirement& requirement : AccuracyRequirement::named())
    if (auto best = best_at(accuracy_limits(requirement))) wanted.emplace(best->id, std::move(*best));
  for (const auto& [id, trial] : wanted) store_code(trial);
}

// The compile workers left the code in the cache that all processes share.
void Session::store_code(const TrialRecord& trial) {
  const KernelFamily* family = find_family(devices_.info.backend, store_.family(trial.family).name);
  if (!family || family->builtin()) return;
  const KernelInstance instance =
      family->instantiate(problem_, Configuration::from_json(trial.configuration), devices_.info);
  try {
    store_.put_code(trial.id, CodeCache().get_or_compile(instance, devices_.info).image);
  } catch (const std::exception& error) {
    note(fmt::format("the machine code is not stored: {}", error.what()));
  }
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

void Session::take(Evaluator& evaluator, EvaluationResult finished) {
  const auto [family, index] = in_flight_.at(finished.request.id);
  in_flight_.erase(finished.request.id);
  if (family->family->builtin()) {
    --builtin_in_flight_;
    builtin_seconds_ += finished.device_seconds;
  }
  store(finished, *family);
  handle(evaluator, *family, index, finished.trial, false);
  result_.search_seconds = seconds_since(start_);
  result_.busy_share = evaluator.busy_share(group_);
}

void Session::finish(Evaluator& evaluator) {
  retime_finalists(evaluator);
  record_baselines();
  find_best();
  store_code();
  result_.state = interrupted() ? SessionState::interrupted : SessionState::finished;
  store_.finish_session(result_.id, result_.state);
  running_ = false;
  result_.seconds = seconds_since(start_);
}

void Session::fail() {
  if (running_) store_.finish_session(result_.id, SessionState::failed);
}

// Devices of one kind together, in order of the first of each.
std::vector<DeviceGroup> group_devices(const std::vector<SessionDevice>& devices) {
  std::vector<DeviceGroup> groups;
  for (const SessionDevice& device : devices) {
    const DeviceRecord record = device_record(device.info);
    const auto twin = std::find_if(groups.begin(), groups.end(), [&](const DeviceGroup& group) {
      return same_device(device_record(group.info), record);
    });
    if (twin == groups.end()) {
      groups.push_back({device.info, {device.name}});
    } else {
      twin->names.push_back(device.name);
    }
  }
  return groups;
}

EvaluatorOptions evaluator_options(const Problem& problem, const SessionOptions& options,
                                   const std::vector<DeviceGroup>& groups) {
  EvaluatorOptions evaluator;
  evaluator.executable = options.executable;
  evaluator.groups = groups;
  evaluator.problem = problem;
  evaluator.kernel = options.kernel;
  evaluator.seed = options.seed;
  evaluator.jobs = options.jobs;
  evaluator.overlap = options.overlap;
  evaluator.timing = options.timing;
  evaluator.compile_limit_seconds = options.compile_limit_seconds;
  evaluator.run_limit_seconds = options.run_limit_seconds;
  evaluator.interrupted = options.interrupted;
  return evaluator;
}

// Until the budget, the spaces or the user end every session.
void search(std::vector<Session>& sessions, Evaluator& evaluator,
            const volatile std::sig_atomic_t* interrupted) {
  while (true) {
    Clock::time_point next = Clock::now() + kHeartbeat;
    bool pending = false;
    for (std::size_t group = 0; group < sessions.size(); ++group) {
      sessions[group].pump(evaluator);
      if (evaluator.pending(group) == 0) continue;
      pending = true;
      // What is being measured when the time is over is waited for.
      if (const auto deadline = sessions[group].deadline(); deadline > Clock::now())
        next = std::min(next, deadline);
    }
    if (!pending || (interrupted && *interrupted)) return;
    if (auto finished = evaluator.wait(next)) {
      const std::size_t group = finished->request.group;
      sessions[group].take(evaluator, std::move(*finished));
    } else {
      for (Session& session : sessions) session.report_waiting(evaluator);
    }
  }
}

}  // namespace

std::vector<SessionResult> tune(Store& store, const Problem& problem, const SessionOptions& options,
                                SessionListener& listener) {
  if (!problem.user.empty() && !options.kernel)
    throw UserError(
        fmt::format("'{}' is a user's own kernel: give its file with --kernel", problem.to_string()));
  const Clock::time_point start = Clock::now();
  const std::vector<DeviceGroup> groups = group_devices(options.devices);
  std::vector<Session> sessions;
  sessions.reserve(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    sessions.emplace_back(store, problem, options, listener, groups[i], i, start);
  Evaluator evaluator(evaluator_options(problem, options, groups));
  try {
    for (Session& session : sessions) session.begin();
    search(sessions, evaluator, options.interrupted);
    for (Session& session : sessions) session.finish(evaluator);
  } catch (...) {
    for (Session& session : sessions) session.fail();
    throw;
  }
  std::vector<SessionResult> results;
  for (Session& session : sessions) results.push_back(std::move(session.result()));
  return results;
}

}  // namespace knobwise
