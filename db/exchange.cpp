#include "db/exchange.h"

#include <fmt/core.h>

#include <istream>
#include <ostream>
#include <stdexcept>

#include "db/exchange_formats.h"
#include "db/identifiers.h"
#include "db/whole_database.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

/// A database file in the temporary folder that goes with the object.
class ScratchDatabase {
 public:
  ~ScratchDatabase() {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path_.string() + suffix, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("knobwise-import-" + make_uuid() + ".db");
};

std::vector<std::string> left_out(const Store& store) {
  const StoreCounts counts = store.counts();
  std::int64_t empty = 0;
  for (const auto& [id, session] : store.sessions()) empty += store.next_session_order(id) == 0;
  std::vector<std::string> words;
  if (counts.baselines > 0) words.push_back(fmt::format("{} baselines", counts.baselines));
  if (empty > 0) words.push_back(fmt::format("{} sessions without trials", empty));
  if (counts.codes > 0) words.push_back(fmt::format("the machine code of {} trials", counts.codes));
  return words;
}

}  // namespace

ExchangeFormat parse_exchange_format(const std::string& word) {
  if (word == "t4") return ExchangeFormat::t4;
  if (word == "csv") return ExchangeFormat::csv;
  if (word == "sql") return ExchangeFormat::sql;
  throw UserError(fmt::format("there is no format '{}'; there is t4, csv, sql", word));
}

std::optional<ExchangeFormat> exchange_format_of(const fs::path& path) {
  const std::string extension = path.extension().string();
  if (extension == ".json") return ExchangeFormat::t4;
  if (extension == ".csv") return ExchangeFormat::csv;
  if (extension == ".sql") return ExchangeFormat::sql;
  return std::nullopt;
}

std::vector<Stored<SessionRecord>> exported_sessions(const Store& store, const ExportOptions& options) {
  std::vector<Stored<SessionRecord>> sessions = store.sessions();
  if (!options.problem) return sessions;
  const auto problem = store.find_problem(*options.problem);
  if (!problem) {
    throw UserError(fmt::format("database '{}' has no problem '{}'; 'knobwise db info' lists those it has",
                                store.path().string(), *options.problem));
  }
  std::erase_if(sessions, [&](const auto& session) { return session.record.problem != *problem; });
  return sessions;
}

ExportResult export_database(const Store& store, const ExportOptions& options, std::ostream& out) {
  if (options.format == ExchangeFormat::sql) {
    if (options.problem) throw UserError("SQL text holds the whole database: leave out the problem");
    write_sql(store.path(), out);
    return {.trials = store.counts().trials, .left_out = {}};
  }
  const auto write = options.format == ExchangeFormat::t4 ? write_t4 : write_csv;
  return {.trials = write(store, options, out), .left_out = left_out(store)};
}

MergeResult import_database(const fs::path& target, ExchangeFormat format, std::istream& in,
                            const std::string& name) {
  const ScratchDatabase scratch;
  if (format == ExchangeFormat::sql) {
    run_sql(scratch.path(), in, name);
  } else {
    Store store = Store::open(scratch.path(), Store::Mode::read_write);
    (format == ExchangeFormat::t4 ? read_t4 : read_csv)(store, in, name);
  }
  MergeResult added;
  change_or_make(target, [&](Store& store) { added = store.merge(scratch.path()); });
  return added;
}

void TrialSink::add(const TrialContext& context, TrialRecord trial, std::string place) {
  constexpr std::size_t kBatch = 1000;
  try {
    trial.device = store_.intern_device(context.device);
    trial.environment = store_.intern_environment(context.environment);
    trial.problem = store_.intern_problem(context.problem);
    trial.family = store_.intern_family(context.family);
    if (const auto session = store_.find_session(context.session.uuid)) {
      trial.session = *session;
    } else {
      SessionRecord record = context.session;
      record.device = trial.device, record.environment = trial.environment, record.problem = trial.problem;
      trial.session = store_.begin_session(record);
    }
  } catch (const std::invalid_argument& refusal) {
    throw UserError(fmt::format("{}: {}", place, refusal.what()));
  }
  pending_.push_back(std::move(trial));
  places_.push_back(std::move(place));
  if (pending_.size() == kBatch) flush();
}

void TrialSink::flush() {
  try {
    store_.copy_trials(pending_);
  } catch (const std::invalid_argument&) {
    find_the_bad_one();
    throw;
  }
  pending_.clear();
  places_.clear();
}

void TrialSink::find_the_bad_one() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    try {
      store_.copy_trials({&pending_[i], 1});
    } catch (const std::invalid_argument& refusal) {
      throw UserError(fmt::format("{}: {}", places_[i], refusal.what()));
    }
  }
}

}  // namespace knobwise
