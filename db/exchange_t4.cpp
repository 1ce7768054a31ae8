// T4: https://github.com/odgaard/TuningSchema (branch T4), results-schema.json.
#include <fmt/core.h>

#include <istream>
#include <iterator>
#include <map>
#include <ostream>

#include "db/exchange_formats.h"
#include "db/record_json.h"
#include "search_spaces/json_text.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOwnFields = "knobwise";

/// T4's word for how a trial ended.
const char* invalidity(TrialStatus status) {
  switch (status) {
    case TrialStatus::ok:
      return "correct";
    case TrialStatus::unsupported:
    case TrialStatus::invalid:
      return "constraints";
    case TrialStatus::compile_failed:
    case TrialStatus::compile_crashed:
      return "compile";
    case TrialStatus::compile_timeout:
    case TrialStatus::timeout:
      return "timeout";
    case TrialStatus::wrong_result:
    case TrialStatus::out_of_bounds:
      return "correctness";
    default:
      return "runtime";
  }
}

double milliseconds(const std::optional<double>& seconds) {
  return 1000 * seconds.value_or(0);
}

Json result_of(const TrialRecord& trial) {
  Json result;
  result["timestamp"] = trial.started;
  result["configuration"] = Json::parse(trial.configuration);
  result["objectives"] = {"time"};
  result["times"] = {{"compilation_time", milliseconds(trial.compile_seconds)},
                     {"runtimes", Json::array()},
                     {"framework", 0},
                     {"search_algorithm", 0},
                     {"validation", milliseconds(trial.verify_seconds)}};
  result["invalidity"] = invalidity(trial.status);
  result["correctness"] = trial.status == TrialStatus::ok ? 1 : 0;
  result["measurements"] = Json::array();
  if (trial.timing) {
    for (const float sample : trial.timing->samples)
      result["times"]["runtimes"].push_back(static_cast<double>(sample) / 1000);
    result["measurements"].push_back(
        {{"name", "time"}, {"value", trial.timing->time_us / 1000}, {"unit", "ms"}});
  }
  Json own = to_json_object(trial);
  own.erase("started");
  own.erase("samples");
  // What the standard field cannot give back letter by letter is repeated.
  if (result["configuration"].dump() == trial.configuration) own.erase("configuration");
  own["errors"] = Json::array();
  for (const ErrorRecord& error : trial.errors) own["errors"].push_back(to_json_object(error));
  result[kOwnFields] = std::move(own);
  return result;
}

TrialRecord trial_of(const Json& result) {
  Json own = result.at(kOwnFields);
  own["started"] = result.at("timestamp");
  if (!own.contains("configuration")) own["configuration"] = result.at("configuration").dump();
  if (own.contains("time_us")) {
    own["samples"] = Json::array();
    for (const Json& runtime : result.at("times").at("runtimes"))
      own["samples"].push_back(static_cast<float>(runtime.get<double>() * 1000));
  }
  TrialRecord trial = from_json_object<TrialRecord>(own);
  for (const Json& error : own.at("errors")) trial.errors.push_back(from_json_object<ErrorRecord>(error));
  return trial;
}

template <class Record>
Json table_of(const std::vector<Stored<Record>>& rows) {
  Json table = Json::array();
  for (const auto& [id, record] : rows) {
    Json row = {{"id", id}};
    row.update(to_json_object(record));
    table.push_back(std::move(row));
  }
  return table;
}

template <class Record>
std::map<std::int64_t, Record> read_table(const Json& tables, const char* name) {
  std::map<std::int64_t, Record> rows;
  for (const Json& row : tables.at(name))
    rows[row.at("id").get<std::int64_t>()] = from_json_object<Record>(row);
  return rows;
}

/// The tables that trials refer to, by the ids of the file.
struct Tables {
  std::map<std::int64_t, DeviceRecord> devices;
  std::map<std::int64_t, EnvironmentRecord> environments;
  std::map<std::int64_t, ProblemRecord> problems;
  std::map<std::int64_t, FamilyRecord> families;
  std::map<std::int64_t, SessionRecord> sessions;

  explicit Tables(const Json& json)
      : devices(read_table<DeviceRecord>(json, "devices")),
        environments(read_table<EnvironmentRecord>(json, "environments")),
        problems(read_table<ProblemRecord>(json, "problems")),
        families(read_table<FamilyRecord>(json, "families")),
        sessions(read_table<SessionRecord>(json, "sessions")) {}

  TrialContext context(const TrialRecord& trial) const {
    return {.device = devices.at(trial.device),
            .environment = environments.at(trial.environment),
            .problem = problems.at(trial.problem),
            .family = families.at(trial.family),
            .session = sessions.at(trial.session)};
  }
};

Json parse(std::istream& in, const std::string& name) {
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  require_shallow_json(text, name);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw UserError(fmt::format("{}: is not JSON, from byte {} on: export it again", name, error.byte));
  } catch (const Json::out_of_range&) {
    throw UserError(fmt::format("{}: holds a number that is too large: export it again", name));
  }
}

}  // namespace

std::int64_t write_t4(const Store& store, const ExportOptions& options, std::ostream& out) {
  const std::vector<Stored<SessionRecord>> sessions = exported_sessions(store, options);
  const Json metadata = {{"timeunit", "milliseconds"},
                         {kOwnFields,
                          {{"devices", table_of(store.devices())},
                           {"environments", table_of(store.environments())},
                           {"problems", table_of(store.problems())},
                           {"families", table_of(store.families())},
                           {"sessions", table_of(sessions)}}}};
  out << "{\"schema_version\": \"1.0.0\",\n\"metadata\": " << metadata.dump() << ",\n\"results\": [";
  std::int64_t written = 0;
  for (const auto& [id, session] : sessions) {
    for (const TrialRecord& trial : store.session_trials(id))
      out << (written++ > 0 ? ",\n" : "\n") << result_of(trial).dump();
  }
  out << "\n]}\n";
  return written;
}

void read_t4(Store& store, std::istream& in, const std::string& name) {
  const Json document = parse(in, name);
  std::int64_t number = 0;
  try {
    if (!document.is_object() || !document.contains("results")) {
      throw UserError(fmt::format("{}: is not a T4 file: it has no list `results`", name));
    }
    if (!document.contains("metadata") || !document["metadata"].is_object() ||
        !document["metadata"].contains(kOwnFields)) {
      throw UserError(fmt::format(
          "{}: does not say which problems and devices its results are of, as `knobwise db export` does; "
          "recordings of other tuners are for `knobwise simulate`",
          name));
    }
    const Tables tables(document["metadata"][kOwnFields]);
    TrialSink sink(store);
    for (const Json& result : document["results"]) {
      ++number;
      TrialRecord trial = trial_of(result);
      const TrialContext context = tables.context(trial);
      sink.add(context, std::move(trial), fmt::format("{}: result {}", name, number));
    }
    sink.flush();
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(number == 0 ? fmt::format("{}: metadata: {}", name, error.what())
                                : fmt::format("{}: result {}: {}", name, number, error.what()));
  }
}

}  // namespace knobwise
