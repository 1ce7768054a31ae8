#include "reports/data_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "db/identifiers.h"
#include "reports/ceilings.h"
#include "reports/knob_importance.h"
#include "reports/knob_table.h"

namespace knobwise {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostSamples = 200;

// Six significant digits say more than any measurement here; null for what is no finite number.
ordered_json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 1e6) return static_cast<std::int64_t>(value);
  std::array<char, 32> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 6).ptr;
  double rounded = value;
  std::from_chars(text.data(), end, rounded);
  return rounded;
}

ordered_json number(const std::optional<double>& value) {
  return value ? number(*value) : ordered_json();
}
ordered_json number(const std::optional<std::int64_t>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

// Seconds since 1970 of a moment of the database; null for anything else.
ordered_json epoch_seconds(const std::string& moment) {
  int year = 0, hour = 0, minute = 0;
  unsigned month = 0, day = 0;
  double second = 0;
  if (std::sscanf(moment.c_str(), "%d-%u-%uT%d:%d:%lf", &year, &month, &day, &hour, &minute, &second) != 6)
    return nullptr;
  const std::chrono::sys_days date =
      std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day);
  return date.time_since_epoch().count() * 86400 + hour * 3600 + minute * 60 +
         static_cast<std::int64_t>(second);
}

// The worst of a metric over the distributions; NaN where any is NaN or none was measured.
double worst(const std::vector<ErrorRecord>& errors, double ErrorRecord::*metric) {
  if (errors.empty()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (const ErrorRecord& error : errors) {
    if (std::isnan(error.*metric)) return error.*metric;
    largest = std::max(largest, error.*metric);
  }
  return largest;
}

std::int64_t nan_count(const std::vector<ErrorRecord>& errors) {
  std::int64_t count = 0;
  for (const ErrorRecord& error : errors) count += error.nan_count;
  return count;
}

constexpr std::pair<const char*, double ErrorRecord::*> kMetrics[] = {
    {"max_abs", &ErrorRecord::max_abs},
    {"mean_abs", &ErrorRecord::mean_abs},
    {"rms", &ErrorRecord::rms},
    {"rel_fro", &ErrorRecord::rel_fro},
    {"frac_outside", &ErrorRecord::frac_outside},
};

void put_errors(ordered_json& object, const std::vector<ErrorRecord>& errors) {
  object["distributions"] = errors.size();
  for (const auto& [name, metric] : kMetrics) object[name] = number(worst(errors, metric));
  object["nans"] = nan_count(errors);
}

ordered_json thinned_samples(const std::vector<float>& samples) {
  const std::size_t count = std::min(samples.size(), kMostSamples);
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) list.push_back(number(samples[i * samples.size() / count]));
  return list;
}

// Words by number, in order of first use.
class Dictionary {
 public:
  std::size_t index(const std::string& word) {
    const auto [place, added] = index_.try_emplace(word, words_.size());
    if (added) words_.push_back(word);
    return place->second;
  }
  const std::vector<std::string>& words() const { return words_; }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<std::string> words_;
};

using Trials = std::vector<TrialRecord>;

template <class ValueOf>
void put_column(ordered_json& columns, const char* name, const Trials& trials, const ValueOf& value_of) {
  ordered_json column = ordered_json::array();
  bool any = false;
  for (const TrialRecord& trial : trials) {
    column.push_back(value_of(trial));
    any = any || !column.back().is_null();
  }
  if (any) columns[name] = std::move(column);
}

void put_timing_columns(ordered_json& columns, const Trials& trials) {
  const auto timing = [&](const char* name, double TimingRecord::*field) {
    put_column(columns, name, trials,
               [&](const TrialRecord& t) { return t.timing ? number((*t.timing).*field) : ordered_json(); });
  };
  timing("time", &TimingRecord::time_us);
  timing("time_min", &TimingRecord::min_us);
  timing("time_mean", &TimingRecord::mean_us);
  put_column(columns, "samples", trials, [](const TrialRecord& t) {
    return t.timing ? ordered_json(t.timing->samples.size()) : ordered_json();
  });
  put_column(columns, "retimed", trials,
             [](const TrialRecord& t) { return t.retimed ? epoch_seconds(*t.retimed) : ordered_json(); });
}

void put_error_columns(ordered_json& columns, const Trials& trials) {
  put_column(columns, "distributions", trials,
             [](const TrialRecord& t) { return ordered_json(t.errors.size()); });
  for (const auto& [name, metric] : kMetrics) {
    put_column(columns, name, trials,
               [metric = metric](const TrialRecord& t) { return number(worst(t.errors, metric)); });
  }
  put_column(columns, "nans", trials, [](const TrialRecord& t) {
    return t.errors.empty() ? ordered_json() : ordered_json(nan_count(t.errors));
  });
}

void put_resource_columns(ordered_json& columns, const Trials& trials) {
  const auto resource = [&](const char* name, auto field) {
    put_column(columns, name, trials, [field](const TrialRecord& t) { return number(t.resources.*field); });
  };
  resource("registers", &ResourceRecord::registers);
  resource("spill_bytes", &ResourceRecord::spill_bytes);
  resource("stack_bytes", &ResourceRecord::stack_bytes);
  resource("static_shared_bytes", &ResourceRecord::static_shared_bytes);
  resource("dynamic_shared_bytes", &ResourceRecord::dynamic_shared_bytes);
  resource("occupancy", &ResourceRecord::occupancy);
  resource("binary_bytes", &ResourceRecord::binary_bytes);
  put_column(columns, "waves", trials, [](const TrialRecord& t) {
    const ordered_json extra = ordered_json::parse(t.extra, nullptr, false);
    const auto waves = extra.find("waves");
    return waves != extra.end() && waves->is_number() ? number(waves->get<double>()) : ordered_json();
  });
}

void put_course_columns(ordered_json& columns, const Trials& trials) {
  const auto field = [&](const char* name, auto member) {
    put_column(columns, name, trials, [member](const TrialRecord& t) { return number(t.*member); });
  };
  field("compile_seconds", &TrialRecord::compile_seconds);
  field("verify_seconds", &TrialRecord::verify_seconds);
  field("measure_seconds", &TrialRecord::measure_seconds);
  field("clock_khz", &TrialRecord::clock_khz);
  field("temperature_c", &TrialRecord::temperature_c);
  put_column(columns, "started", trials, [](const TrialRecord& t) { return epoch_seconds(t.started); });
  put_column(columns, "wall_seconds", trials, [](const TrialRecord& t) { return number(t.wall_seconds); });
  const auto index = [&](const char* name, std::int64_t TrialRecord::*member) {
    put_column(columns, name, trials, [member](const TrialRecord& t) { return ordered_json(t.*member); });
  };
  index("order", &TrialRecord::session_order);
  index("session", &TrialRecord::session);
  index("environment", &TrialRecord::environment);
  index("family", &TrialRecord::family);
}

ordered_json knob_json(const KnobColumn& knob) {
  ordered_json values = ordered_json::array();
  for (const std::string& value : knob.values) values.push_back(ordered_json::parse(value));
  return {{"name", knob.name}, {"values", std::move(values)}, {"value_of", knob.value_of}};
}

ordered_json importance_json(const KnobImportance& importance) {
  ordered_json features = ordered_json::array();
  for (const FeatureImportance& feature : importance.features)
    features.push_back({{"feature", feature.feature}, {"importance", number(feature.importance)}});
  return {{"trials", importance.trials}, {"explained", number(importance.explained)}, {"features", features}};
}

// Every accuracy that the page offers, and how many finalists it gets.
struct FinalistClass {
  AccuracyLimits limits;
  std::size_t count;
};
const FinalistClass kFinalistClasses[] = {{{}, 8},
                                          {allclose_limits(), 8},
                                          {{.rel_fro = 1e-3}, 4},
                                          {{.rel_fro = 2e-3}, 4},
                                          {{.rel_fro = 1.6e-2}, 4}};

// The fastest trials of each accuracy, for every version of every family in every environment: the page says
// which are current.
std::vector<std::size_t> finalists(const Trials& trials) {
  std::vector<std::size_t> ranked;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].timing) ranked.push_back(i);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](std::size_t a, std::size_t b) {
    return trials[a].timing->time_us < trials[b].timing->time_us;
  });
  std::map<std::tuple<std::int64_t, std::int64_t, std::size_t>, std::size_t> taken;
  std::vector<std::size_t> chosen;
  for (const std::size_t index : ranked) {
    const TrialRecord& trial = trials[index];
    bool wanted = false;
    for (std::size_t i = 0; i < std::size(kFinalistClasses); ++i) {
      std::size_t& count = taken[{trial.family, trial.environment, i}];
      if (count == kFinalistClasses[i].count || !meets(trial.errors, kFinalistClasses[i].limits)) continue;
      ++count;
      wanted = true;
    }
    if (wanted) chosen.push_back(index);
  }
  return chosen;
}

ordered_json group_json(const ReportGroup& group) {
  const Trials& trials = group.trials;
  ordered_json columns = ordered_json::object();
  put_course_columns(columns, trials);
  put_timing_columns(columns, trials);
  put_error_columns(columns, trials);
  put_resource_columns(columns, trials);
  Dictionary reasons, precisions;
  put_column(columns, "status", trials,
             [](const TrialRecord& t) { return ordered_json(static_cast<int>(t.status)); });
  put_column(columns, "reason", trials, [&](const TrialRecord& t) {
    return t.reason.empty() ? ordered_json() : ordered_json(reasons.index(t.reason));
  });
  put_column(columns, "precision", trials,
             [&](const TrialRecord& t) { return ordered_json(precisions.index(t.precision)); });

  ordered_json samples = ordered_json::array();
  for (const std::size_t trial : finalists(trials)) {
    const TimingRecord& timing = *trials[trial].timing;
    samples.push_back(
        {{"trial", trial}, {"kind", to_string(timing.kind)}, {"us", thinned_samples(timing.samples)}});
  }
  const std::vector<KnobColumn> knobs = knob_table(trials);
  ordered_json object = {
      {"problem", group.problem},        {"device", group.device},
      {"count", trials.size()},          {"columns", std::move(columns)},
      {"reasons", reasons.words()},      {"precisions", precisions.words()},
      {"finalists", std::move(samples)}, {"importance", importance_json(knob_importance(trials, knobs))},
      {"knobs", ordered_json::array()}};
  for (const KnobColumn& knob : knobs) object["knobs"].push_back(knob_json(knob));
  return object;
}

ordered_json device_json(const DeviceRecord& device) {
  ordered_json ceilings = ordered_json::array();
  for (const Ceiling& ceiling : device_ceilings(device)) {
    ceilings.push_back({{"resource", ceiling.resource},
                        {"per_second", number(ceiling.per_second)},
                        {"measured", ceiling.measured}});
  }
  return {{"backend", device.backend},
          {"vendor", device.vendor},
          {"name", device.name},
          {"architecture", device.architecture},
          {"multiprocessors", device.multiprocessors},
          {"memory_bytes", device.memory_bytes},
          {"clock_khz", device.clock_khz},
          {"memory_clock_khz", device.memory_clock_khz},
          {"l2_bytes", device.l2_bytes},
          {"shared_memory_per_block", device.shared_memory_per_block},
          {"ceilings", std::move(ceilings)}};
}

ordered_json environment_json(const EnvironmentRecord& environment) {
  return {{"driver_version", environment.driver_version},
          {"toolkit_version", environment.toolkit_version},
          {"compiler", environment.compiler},
          {"knobwise_version", environment.knobwise_version},
          {"os", environment.os}};
}

// Nobody knows the work of a user's kernel.
ordered_json problem_json(const ProblemRecord& problem) {
  ordered_json json = {{"line", problem.line},     {"op", problem.op}, {"dtype", problem.dtype},
                       {"layout", problem.layout}, {"flops", nullptr}, {"bytes", nullptr}};
  if (!problem.op.starts_with("user:")) {
    json["flops"] = problem.flops;
    json["bytes"] = problem.compulsory_bytes;
  }
  return json;
}

ordered_json session_json(const SessionRecord& session) {
  return {{"uuid", session.uuid},
          {"device", session.device},
          {"environment", session.environment},
          {"problem", session.problem},
          {"strategy", session.strategy},
          {"seed", std::to_string(session.seed)},
          {"max_trials", number(session.max_trials)},
          {"max_seconds", number(session.max_seconds)},
          {"accuracy", session.accuracy},
          {"started", session.started},
          {"finished", session.finished ? ordered_json(*session.finished) : ordered_json()},
          {"state", to_string(session.state)},
          {"command_line", session.command_line},
          {"host", session.host}};
}

// The version of a family that a default was measured with: that of the trial which the baseline repeats.
// Null for a library, and where the trial is gone.
ordered_json default_family(const BaselineRecord& baseline, const ReportData& data) {
  for (const ReportGroup& group : data.groups) {
    if (static_cast<std::int64_t>(group.problem) != baseline.problem ||
        static_cast<std::int64_t>(group.device) != baseline.device)
      continue;
    for (const TrialRecord& trial : group.trials) {
      if (trial.started == baseline.started && trial.environment == baseline.environment &&
          data.families[trial.family].name + " default" == baseline.name)
        return trial.family;
    }
  }
  return nullptr;
}

ordered_json baseline_json(const BaselineRecord& baseline, const ReportData& data) {
  ordered_json object = {{"device", baseline.device},
                         {"environment", baseline.environment},
                         {"problem", baseline.problem},
                         {"name", baseline.name},
                         {"family", default_family(baseline, data)},
                         {"time", number(baseline.timing.time_us)},
                         {"started", baseline.started},
                         {"us", thinned_samples(baseline.timing.samples)}};
  put_errors(object, baseline.errors);
  return object;
}

template <class Record, class Convert>
ordered_json list_json(const std::vector<Record>& records, const Convert& convert) {
  ordered_json list = ordered_json::array();
  for (const Record& record : records) list.push_back(convert(record));
  return list;
}

ordered_json optional_text(const std::optional<std::string>& text) {
  return text ? ordered_json(*text) : ordered_json();
}

}  // namespace

std::string report_json(const ReportData& data, const ReportOptions& options) {
  ordered_json statuses = ordered_json::array();
  for (const TrialStatus status : all_trial_statuses()) statuses.push_back(to_string(status));
  const ordered_json document = {
      {"title", options.title},
      {"generated", utc_now()},
      {"filters",
       {{"problem", optional_text(options.problem)},
        {"device", optional_text(options.device)},
        {"since", optional_text(options.since)}}},
      {"sources", data.sources},
      {"statuses", std::move(statuses)},
      {"devices", list_json(data.devices, device_json)},
      {"environments", list_json(data.environments, environment_json)},
      {"problems", list_json(data.problems, problem_json)},
      {"families", list_json(data.families,
                             [](const FamilyRecord& family) {
                               return ordered_json{{"backend", family.backend},
                                                   {"name", family.name},
                                                   {"source_hash", family.source_hash}};
                             })},
      {"sessions", list_json(data.sessions, session_json)},
      {"baselines", list_json(data.baselines,
                              [&](const BaselineRecord& baseline) { return baseline_json(baseline, data); })},
      {"groups", list_json(data.groups, group_json)}};
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace knobwise
