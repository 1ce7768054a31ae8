// Trials, the best of them, and baselines.
#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>

#include "db/identifiers.h"
#include "db/store.h"
#include "db/store_impl.h"

namespace knobwise {
namespace {

/// Candidates for the best, fastest first, in any accuracy or only those marked as accurate. Written so that
/// NULL (NaN) fails every limit.
constexpr const char* kCandidates = R"(
SELECT t.id, t.family, t.environment FROM trials AS t
WHERE t.problem = ?1 AND t.device = ?2 AND t.status = 'ok')";
constexpr const char* kAccurate = " AND t.allclose = 1";
constexpr const char* kMeetingLimits = R"(
  AND EXISTS (SELECT 1 FROM trial_errors AS e WHERE e.trial = t.id)
  AND NOT EXISTS (
    SELECT 1 FROM trial_errors AS e WHERE e.trial = t.id
      AND (e.nan_count > 0
           OR (?3 IS NOT NULL AND NOT coalesce(e.max_abs <= ?3, 0))
           OR (?4 IS NOT NULL AND NOT coalesce(e.mean_abs <= ?4, 0))
           OR (?5 IS NOT NULL AND NOT coalesce(e.rms <= ?5, 0))
           OR (?6 IS NOT NULL AND NOT coalesce(e.rel_fro <= ?6, 0))
           OR (?7 IS NOT NULL AND NOT coalesce(e.frac_outside <= ?7, 0))))
ORDER BY t.time_us, t.id)";

constexpr const char* kCopyConflict =
    "ON CONFLICT (problem, device, family, environment, configuration, session) DO NOTHING";

constexpr const char* kReplaceBaseline =
    "ON CONFLICT (problem, device, environment, name) DO UPDATE SET time_us = excluded.time_us, "
    "time_kind = excluded.time_kind, time_min_us = excluded.time_min_us, time_mean_us = "
    "excluded.time_mean_us, "
    "samples = excluded.samples, started = excluded.started";

/// NaN would be bound as NULL, that is as no limit.
void require_numbers(const AccuracyLimits& limits) {
  for (const auto& limit :
       {limits.max_abs, limits.mean_abs, limits.rms, limits.rel_fro, limits.frac_outside}) {
    if (limit && std::isnan(*limit)) throw std::invalid_argument("an accuracy limit is NaN");
  }
}

/// The condition of a group of trials in SQL with its values.
template <class... Values>
struct Condition {
  const char* sql;
  std::tuple<Values...> values;

  void bind(Query& query) const {
    std::apply([&query](const Values&... value) { (query.bind(value), ...); }, values);
  }
};

template <class... Values>
Condition<Values...> where(const char* sql, Values... values) {
  return {sql, {values...}};
}

/// The trials of a group in order, with their errors.
template <class Impl, class Group>
std::vector<TrialRecord> load_trials(Impl& impl, const Group& group, const char* order) {
  std::vector<TrialRecord> trials;
  std::unordered_map<std::int64_t, std::size_t> index;
  {
    Query query(impl.prepare(fmt::format("SELECT id, {} FROM trials WHERE {} ORDER BY {}",
                                         column_names<TrialRecord>().names, group.sql, order)));
    group.bind(query);
    while (query.next()) {
      const std::int64_t id = query.read_integer();
      index[id] = trials.size();
      trials.push_back(read_columns<TrialRecord>(query));
      trials.back().id = id;
    }
  }
  Query query(impl.prepare(
      fmt::format("SELECT trial, {} FROM trial_errors WHERE trial IN (SELECT id FROM trials WHERE {}) "
                  "ORDER BY trial, distribution",
                  column_names<ErrorRecord>().names, group.sql)));
  group.bind(query);
  while (query.next()) {
    // Errors of a trial that another process has added since belong to none of these.
    const auto trial = index.find(query.read_integer());
    if (trial != index.end()) trials[trial->second].errors.push_back(read_columns<ErrorRecord>(query));
  }
  return trials;
}

template <class Impl>
TrialRecord load_trial(Impl& impl, std::int64_t id) {
  std::vector<TrialRecord> found = load_trials(impl, where("id = ?", id), "id");
  if (found.empty())
    throw std::invalid_argument(fmt::format("database '{}' has no trial {}", impl.name(), id));
  return std::move(found.front());
}

template <class Impl>
InsertResult insert_one(Impl& impl, const TrialRecord& trial) {
  const auto existing = impl.find(
      "SELECT id FROM trials WHERE problem = ? AND device = ? AND family = ? AND environment = ? AND "
      "configuration = ? ORDER BY id LIMIT 1",
      trial.problem, trial.device, trial.family, trial.environment, trial.configuration);
  if (existing) return {.id = *existing, .inserted = false};
  if (impl.find("SELECT 1 FROM trials WHERE session = ? AND session_order = ?", trial.session,
                trial.session_order)) {
    throw std::invalid_argument(fmt::format("database '{}' refuses a trial: place {} of the session is taken",
                                            impl.name(), trial.session_order));
  }
  const std::int64_t id = impl.insert(trial).value();
  impl.insert_errors("trial_errors", "trial", id, trial.errors);
  return {.id = id, .inserted = true};
}

/// CurrentVersions in the ids of one database.
struct CurrentIds {
  std::optional<std::set<std::int64_t>> families;
  bool any_environment = true;
  std::optional<std::int64_t> environment;  ///< Without a value, none on record is current.

  bool contains(std::int64_t family, std::int64_t of_environment) const {
    return (!families || families->contains(family)) && (any_environment || environment == of_environment);
  }
};

CurrentIds current_ids(const Store& store, const CurrentVersions& current) {
  CurrentIds ids;
  if (current.families) {
    ids.families.emplace();
    for (const FamilyRecord& family : *current.families) {
      if (const auto id = store.find_family(family)) ids.families->insert(*id);
    }
  }
  if (current.environment) {
    ids.any_environment = false;
    ids.environment = store.find_environment(*current.environment);
  }
  return ids;
}

template <class Impl>
BestAnswer find_best(Impl& impl, std::int64_t problem, std::int64_t device, const AccuracyLimits& limits,
                     const CurrentIds& current) {
  BestAnswer answer;
  std::set<std::pair<std::int64_t, std::int64_t>> stale;
  // Whoever accepts nothing outside 1e-4 needs to look at no other trials.
  const bool accurate = impl.marks_accurate_trials() && limits.frac_outside == 0.0;
  Query query(impl.prepare(fmt::format("{}{}{}", kCandidates, accurate ? kAccurate : "", kMeetingLimits)));
  query.bind(problem).bind(device);
  query.bind(limits.max_abs)
      .bind(limits.mean_abs)
      .bind(limits.rms)
      .bind(limits.rel_fro)
      .bind(limits.frac_outside);
  while (query.next()) {
    const std::int64_t trial = query.read_integer();
    const std::int64_t family = query.read_integer();
    const std::int64_t environment = query.read_integer();
    if (current.contains(family, environment)) {
      answer.trial = load_trial(impl, trial);
      break;
    }
    if (stale.emplace(family, environment).second) answer.stale.push_back(load_trial(impl, trial));
  }
  return answer;
}

}  // namespace

InsertResult Store::insert_trial(const TrialRecord& trial) {
  return impl_->transact([&] { return insert_one(*impl_, trial); });
}

std::vector<InsertResult> Store::insert_trials(std::span<const TrialRecord> trials) {
  return impl_->transact([&] {
    std::vector<InsertResult> results;
    results.reserve(trials.size());
    for (const TrialRecord& trial : trials) results.push_back(insert_one(*impl_, trial));
    return results;
  });
}

void Store::copy_trials(std::span<const TrialRecord> trials) {
  impl_->transact([&] {
    for (const TrialRecord& trial : trials) {
      const auto id = impl_->insert(trial, kCopyConflict);
      if (id) impl_->insert_errors("trial_errors", "trial", *id, trial.errors);
    }
  });
}

void Store::update_timing(std::int64_t trial, const TimingRecord& timing) {
  impl_->guard([&] {
    impl_->update(
        "ok trial",
        "UPDATE trials SET time_us = ?, time_kind = ?, time_min_us = ?, time_mean_us = ?, samples = ?, "
        "retimed = ? WHERE id = ? AND status = 'ok'",
        timing.time_us, timing.kind, timing.min_us, timing.mean_us, timing.samples, utc_now(), trial);
  });
}

void Store::mark_failed(std::int64_t trial, TrialStatus status, const std::string& reason) {
  if (status == TrialStatus::ok) throw std::invalid_argument("a trial does not fail with the status ok");
  impl_->guard([&] {
    impl_->update(
        "ok trial",
        "UPDATE trials SET status = ?, reason = ?, time_us = NULL, time_kind = NULL, time_min_us = NULL, "
        "time_mean_us = NULL, samples = NULL, retimed = ? WHERE id = ? AND status = 'ok'",
        status, reason, utc_now(), trial);
  });
}

TrialRecord Store::trial(std::int64_t id) const {
  return impl_->guard([&] { return load_trial(*impl_, id); });
}

std::map<std::string, TrialRecord> Store::finished_trials(std::int64_t device, std::int64_t environment,
                                                          std::int64_t problem, std::int64_t family) const {
  return impl_->guard([&] {
    const auto group = where("problem = ? AND device = ? AND family = ? AND environment = ?", problem, device,
                             family, environment);
    std::map<std::string, TrialRecord> finished;
    for (TrialRecord& trial : load_trials(*impl_, group, "status <> 'ok', id")) {
      std::string configuration = trial.configuration;
      finished.emplace(std::move(configuration), std::move(trial));
    }
    return finished;
  });
}

std::vector<TrialRecord> Store::session_trials(std::int64_t session) const {
  return impl_->guard([&] { return load_trials(*impl_, where("session = ?", session), "session_order"); });
}

std::vector<TrialRecord> Store::trials(std::int64_t problem, std::int64_t device) const {
  return impl_->guard(
      [&] { return load_trials(*impl_, where("problem = ? AND device = ?", problem, device), "id"); });
}

BestAnswer Store::best(std::int64_t problem, std::int64_t device, const AccuracyLimits& limits,
                       const CurrentVersions& current) const {
  require_numbers(limits);
  return impl_->guard(
      [&] { return find_best(*impl_, problem, device, limits, current_ids(*this, current)); });
}

std::vector<TrialRecord> Store::best_of_device(std::int64_t device, const AccuracyLimits& limits,
                                               const CurrentVersions& current) const {
  require_numbers(limits);
  return impl_->guard([&] {
    const CurrentIds ids = current_ids(*this, current);
    std::vector<TrialRecord> winners;
    Query query(impl_->prepare(
        "SELECT DISTINCT problem FROM trials WHERE device = ? AND status = 'ok' ORDER BY problem"));
    query.bind(device);
    while (query.next()) {
      BestAnswer answer = find_best(*impl_, query.read_integer(), device, limits, ids);
      if (answer.trial) winners.push_back(std::move(*answer.trial));
    }
    return winners;
  });
}

void Store::put_baseline(const BaselineRecord& baseline) {
  impl_->transact([&] {
    const std::int64_t id = impl_->insert(baseline, kReplaceBaseline).value();
    Query(impl_->prepare("DELETE FROM baseline_errors WHERE baseline = ?")).bind(id).run();
    impl_->insert_errors("baseline_errors", "baseline", id, baseline.errors);
  });
}

std::vector<BaselineRecord> Store::baselines(std::int64_t problem, std::int64_t device) const {
  return impl_->guard([&] {
    std::vector<BaselineRecord> found;
    Query query(impl_->prepare(fmt::format(
        "SELECT id, {} FROM baselines WHERE problem = ? AND device = ? ORDER BY time_us, name, id",
        column_names<BaselineRecord>().names)));
    query.bind(problem).bind(device);
    while (query.next()) {
      const std::int64_t id = query.read_integer();
      found.push_back(read_columns<BaselineRecord>(query));
      Query errors(impl_->prepare(
          fmt::format("SELECT {} FROM baseline_errors WHERE baseline = ? ORDER BY distribution",
                      column_names<ErrorRecord>().names)));
      errors.bind(id);
      while (errors.next()) found.back().errors.push_back(read_columns<ErrorRecord>(errors));
    }
    return found;
  });
}

}  // namespace knobwise
