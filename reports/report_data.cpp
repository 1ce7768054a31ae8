#include "reports/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <tuple>

#include "db/store.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The index of the row that `equal` holds for; the record is added when there is none.
template <class Record, class Equal>
std::int64_t intern(std::vector<Record>& rows, const Record& record, const Equal& equal) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Record& row) { return equal(row, record); });
  const std::int64_t index = found - rows.begin();
  if (found == rows.end()) rows.push_back(record);
  return index;
}

// From the ids of one database to indices of the report.
using Ids = std::map<std::int64_t, std::int64_t>;

template <class Record, class Equal>
Ids merge(std::vector<Record>& rows, const std::vector<Stored<Record>>& stored, const Equal& equal) {
  Ids ids;
  for (const auto& [id, record] : stored) ids[id] = intern(rows, record, equal);
  return ids;
}

// What the options leave in.
struct Filter {
  const ReportOptions& options;

  bool problem(const ProblemRecord& record) const {
    return !options.problem || record.line == *options.problem;
  }
  bool device(const DeviceRecord& record) const {
    if (!options.device) return true;
    const std::string text =
        lower(fmt::format("{}\n{} {} ({})", record.backend, record.vendor, record.name, record.architecture));
    return text.find(lower(*options.device)) != std::string::npos;
  }
  // Moments sort as text, and a date is the prefix of its moments.
  bool moment(const std::string& started) const { return !options.since || started >= *options.since; }
};

// Collects the rows of several databases, first one first.
class Collector {
 public:
  explicit Collector(const ReportOptions& options) : filter_{options} {}

  void add(const Store& store) {
    const auto equal = [](const auto& a, const auto& b) { return a == b; };
    problems_ = merge(data_.problems, store.problems(),
                      [](const ProblemRecord& a, const ProblemRecord& b) { return a.line == b.line; });
    devices_ = merge(data_.devices, store.devices(), same_device);
    environments_ = merge(data_.environments, store.environments(), equal);
    families_ = merge(data_.families, store.families(), equal);
    add_sessions(store);
    for (const auto& [problem, problem_index] : problems_) {
      for (const auto& [device, device_index] : devices_) {
        if (!filter_.problem(data_.problems[problem_index]) || !filter_.device(data_.devices[device_index])) {
          continue;
        }
        add_trials(store, problem, device);
        add_baselines(store, problem, device);
      }
    }
  }

  ReportData finish() {
    for (auto& [key, trials] : groups_) {
      if (trials.empty()) continue;
      std::stable_sort(trials.begin(), trials.end(), [](const TrialRecord& a, const TrialRecord& b) {
        return std::tie(a.started, a.session_order) < std::tie(b.started, b.session_order);
      });
      data_.groups.push_back({key.first, key.second, std::move(trials)});
    }
    return std::move(data_);
  }

 private:
  void add_sessions(const Store& store) {
    sessions_.clear();
    for (auto [id, session] : store.sessions()) {
      session.device = devices_.at(session.device);
      session.environment = environments_.at(session.environment);
      session.problem = problems_.at(session.problem);
      if (!filter_.problem(data_.problems[session.problem]) || !filter_.device(data_.devices[session.device]))
        continue;
      sessions_[id] = intern(data_.sessions, session,
                             [](const SessionRecord& a, const SessionRecord& b) { return a.uuid == b.uuid; });
    }
  }

  void add_trials(const Store& store, std::int64_t problem, std::int64_t device) {
    std::vector<TrialRecord> trials = store.trials(problem, device);
    if (trials.empty()) return;
    const auto key = std::make_pair(static_cast<std::size_t>(problems_.at(problem)),
                                    static_cast<std::size_t>(devices_.at(device)));
    std::vector<TrialRecord>& group = groups_[key];
    std::set<std::tuple<std::int64_t, std::int64_t, std::string>> known;
    for (const TrialRecord& trial : group)
      known.emplace(trial.family, trial.environment, trial.configuration);
    for (TrialRecord& trial : trials) {
      if (!filter_.moment(trial.started)) continue;
      trial.problem = problems_.at(trial.problem);
      trial.device = devices_.at(trial.device);
      trial.environment = environments_.at(trial.environment);
      trial.family = families_.at(trial.family);
      trial.session = sessions_.at(trial.session);
      if (known.contains({trial.family, trial.environment, trial.configuration})) continue;
      group.push_back(std::move(trial));
    }
  }

  void add_baselines(const Store& store, std::int64_t problem, std::int64_t device) {
    for (BaselineRecord baseline : store.baselines(problem, device)) {
      if (!filter_.moment(baseline.started)) continue;
      baseline.problem = problems_.at(baseline.problem);
      baseline.device = devices_.at(baseline.device);
      baseline.environment = environments_.at(baseline.environment);
      intern(data_.baselines, baseline, [](const BaselineRecord& a, const BaselineRecord& b) {
        return std::tie(a.problem, a.device, a.environment, a.name) ==
               std::tie(b.problem, b.device, b.environment, b.name);
      });
    }
  }

  Filter filter_;
  ReportData data_;
  Ids problems_, devices_, environments_, families_, sessions_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<TrialRecord>> groups_;
};

bool is_moment(const std::string& text) {
  static const std::regex kMoment(
      R"((\d{4})-(\d{2})-(\d{2})(?:T(\d{2}):(\d{2})(?::(\d{2})(?:\.\d{3})?)?Z?)?)");
  std::smatch parts;
  if (!std::regex_match(text, parts, kMoment)) return false;
  const auto part = [&](std::size_t i) { return parts[i].matched ? std::stoi(parts[i]) : 0; };
  const std::chrono::year_month_day date(std::chrono::year(part(1)),
                                         std::chrono::month(static_cast<unsigned>(part(2))),
                                         std::chrono::day(static_cast<unsigned>(part(3))));
  return date.ok() && part(4) < 24 && part(5) < 60 && part(6) < 60;
}

void check_since(const ReportOptions& options) {
  if (options.since && !is_moment(*options.since)) {
    throw UserError(fmt::format(
        "since '{}': expected a UTC date or time such as 2026-01-31 or 2026-01-31T12:00", *options.since));
  }
}

// A filter that leaves nothing of something is a mistake worth a message; an empty database is not.
void check_filters(const ReportData& data, const ReportOptions& options) {
  const Filter filter{options};
  const auto known = [](const auto& rows, const auto& name) {
    std::string text;
    for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 5); ++i)
      text += fmt::format("{} '{}'", i == 0 ? "" : ",", name(rows[i]));
    return text + (rows.size() > 5 ? fmt::format(" and {} more", rows.size() - 5) : "");
  };
  if (!data.problems.empty() && std::none_of(data.problems.begin(), data.problems.end(),
                                             [&](const auto& row) { return filter.problem(row); })) {
    throw UserError(fmt::format("problem '{}' is not on record; on record:{}", *options.problem,
                                known(data.problems, [](const ProblemRecord& row) { return row.line; })));
  }
  if (!data.devices.empty() && std::none_of(data.devices.begin(), data.devices.end(),
                                            [&](const auto& row) { return filter.device(row); })) {
    throw UserError(fmt::format("device '{}' is not on record; on record:{}", *options.device,
                                known(data.devices, [](const DeviceRecord& row) { return row.name; })));
  }
}

// At one moment: a session may be writing.
void add(Collector& collector, const std::filesystem::path& path) {
  const Store store = Store::open(path, Store::Mode::read_only);
  store.at_one_moment([&] { collector.add(store); });
}

}  // namespace

ReportData read_report_data(const std::vector<std::filesystem::path>& databases,
                            const ReportOptions& options) {
  check_since(options);
  std::vector<std::filesystem::path> usable;
  std::vector<std::string> left_out;
  std::optional<Collector> collector = Collector(options);
  for (const std::filesystem::path& path : databases) {
    try {
      add(*collector, path);
      usable.push_back(path);
    } catch (const UserError& error) {
      left_out.push_back(error.what());
      // Damage may show after half of a database: again without it.
      collector.emplace(options);
      for (const std::filesystem::path& other : usable) add(*collector, other);
    }
  }
  if (usable.empty() && !left_out.empty()) throw UserError(left_out.front());
  ReportData data = collector->finish();
  for (const std::filesystem::path& path : usable) data.sources.push_back(path.string());
  data.left_out = std::move(left_out);
  check_filters(data, options);
  return data;
}

}  // namespace knobwise
