#include "db/salvage.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "db/columns.h"
#include "db/errors.h"
#include "db/identifiers.h"
#include "db/lost_tables.h"
#include "db/store.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the object.
class ScratchFolder {
 public:
  explicit ScratchFolder(const fs::path& beside) : path_(beside.string() + ".salvage-" + make_uuid()) {
    fs::create_directory(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The copy as SQLite should take it: no schema check, and no objection to a length that the header denies.
SQLite::Database open_leniently(const fs::path& path) {
  SQLite::Database database(path.string(), SQLite::OPEN_READWRITE);
  database.exec("PRAGMA writable_schema = ON");
  return database;
}

bool lists_its_tables(const fs::path& path) {
  try {
    SQLite::Database database = open_leniently(path);
    return database.execAndGet("SELECT count(*) FROM sqlite_schema WHERE name IN ('trials', 'problems')")
               .getInt() == 2;
  } catch (const SQLite::Exception&) {
    return false;
  }
}

/// Copies the rows of one file to another, table by table.
class Rescue {
 public:
  /// `found` are the tables of a file with a new list; empty where the file's own serves.
  Rescue(const fs::path& damaged, std::vector<FoundTable> found, SQLite::Database& out)
      : damaged_(open_leniently(damaged)), found_(std::move(found)), out_(out) {}

  SalvageResult run() {
    result_.devices = table("devices", "id, " + column_names<DeviceRecord>().names);
    result_.environments = table("environments", "id, " + column_names<EnvironmentRecord>().names);
    result_.problems = table("problems", "id, " + column_names<ProblemRecord>().names);
    result_.families = table("families", "id, " + column_names<FamilyRecord>().names);
    result_.sessions = table("sessions", "id, " + column_names<SessionRecord>().names);
    table("trials", "id, " + column_names<TrialRecord>().names);
    table("baselines", "id, " + column_names<BaselineRecord>().names);
    tell_errors_apart();
    errors("trial_errors", "trial", "trials");
    errors("baseline_errors", "baseline", "baselines");
    table("machine_code", "id, hash, image_bytes, image");
    table("trial_code", "trial, code");
    replace_lost_sessions();
    remove_orphans();
    result_.trials = count("trials");
    result_.baselines = count("baselines");
    result_.codes = count("trial_code");
    result_.errors = count("trial_errors") + count("baseline_errors");
    return result_;
  }

 private:
  std::int64_t count(const std::string& table) {
    return out_.execAndGet(fmt::format("SELECT count(*) FROM {}", table)).getInt64();
  }

  /// Runs a query on the damaged file, gives each row to the target, and says where it ended: the id of the
  /// last row, and whether damage ended it. The first column is the id.
  struct Pass {
    std::optional<std::int64_t> last;
    bool broken = false;
  };
  Pass pass(const std::string& select, std::int64_t from, std::int64_t to, SQLite::Statement& insert) {
    Pass pass;
    try {
      SQLite::Statement query(damaged_, select);
      query.bind(1, from);
      query.bind(2, to);
      while (query.executeStep()) {
        pass.last = query.getColumn(0).getInt64();
        put(query, insert);
      }
    } catch (const SQLite::Exception&) {
      pass.broken = true;
    }
    return pass;
  }

  void put(SQLite::Statement& row, SQLite::Statement& insert) {
    for (int i = 0; i < row.getColumnCount(); ++i) {
      const SQLite::Column value = row.getColumn(i);
      if (value.isInteger()) insert.bind(i + 1, value.getInt64());
      if (value.isFloat()) insert.bind(i + 1, value.getDouble());
      if (value.isText()) insert.bind(i + 1, value.getString());
      if (value.isBlob()) insert.bind(i + 1, value.getBlob(), value.getBytes());
      if (value.isNull()) insert.bind(i + 1);
    }
    if (insert.tryExecuteStep() != SQLITE_DONE) {
      const int code = insert.getErrorCode();
      // A failure to write is not damage of what is read.
      if (code != SQLITE_CONSTRAINT && code != SQLITE_MISMATCH)
        throw_translated(SQLite::Exception(out_.getHandle(), code), out_.getFilename());
      ++result_.refused;
    }
    insert.tryReset();
  }

  /// What a table is called in the damaged file; a file with a new list may have several parts of it, or
  /// none.
  std::vector<std::string> names_of(const std::string& table) const {
    if (found_.empty()) return {table};
    std::vector<std::string> names;
    for (const FoundTable& part : found_) {
      if (part.table == table) names.push_back(part.name);
    }
    return names;
  }

  /// The rows of a table with an id; the number of rows that the target then has.
  std::int64_t table(const std::string& name, const std::string& columns) {
    std::string holders = "?";
    for (auto n = std::count(columns.begin(), columns.end(), ','); n > 0; --n) holders += ", ?";
    SQLite::Statement insert(
        out_, fmt::format("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT DO NOTHING", name, columns, holders));
    bool whole = true;
    for (const std::string& part : names_of(name)) whole = rows(part, columns, insert) && whole;
    if (!whole) result_.damaged.push_back(name);
    return count(name);
  }

  /// Whatever parts of a table with an id can be read; whether that was all.
  bool rows(const std::string& name, const std::string& columns, SQLite::Statement& insert) {
    constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
    const std::string id = columns.substr(0, columns.find(','));
    const std::string select = fmt::format(
        "SELECT {} FROM {} NOT INDEXED WHERE {} BETWEEN ? AND ? ORDER BY {}", columns, name, id, id);
    const Pass ahead = pass(select, kFirst, kLast, insert);
    if (!ahead.broken) return true;
    const std::int64_t low = ahead.last ? *ahead.last + 1 : 0;
    const Pass back = pass(select + " DESC", low, kLast, insert);
    if (!back.broken) return true;
    fill_gap(select, low, back.last ? *back.last - 1 : low + kProbedIds, insert);
    return !holds(name);
  }

  /// A table that an older schema does not have is no damage.
  bool holds(const std::string& table) {
    try {
      SQLite::Statement query(damaged_, "SELECT 1 FROM sqlite_schema WHERE name = ?");
      query.bind(1, table);
      return query.executeStep();
    } catch (const SQLite::Exception&) {
      return true;
    }
  }

  /// Between two damaged places: jumps of growing width over what cannot be read, and back from where it can.
  void fill_gap(const std::string& select, std::int64_t low, std::int64_t high, SQLite::Statement& insert) {
    std::int64_t step = 1;
    for (std::int64_t at = low; at <= high;) {
      const Pass found = pass(select, at, high, insert);
      if (!found.broken) return;
      if (!found.last) {
        at += step;
        step *= 2;
        continue;
      }
      pass(select + " DESC", low, at - 1, insert);
      low = *found.last + 1;
      at = low;
      step = 1;
    }
  }

  /// Rows of errors do not say whether they are of trials or of baselines: those that no baseline has are of
  /// trials, and so are the first of those that both may have, since the table of trials' errors is older.
  void tell_errors_apart() {
    std::vector<FoundTable*> of_either;
    for (FoundTable& part : found_) {
      if (part.table != "errors") continue;
      part.table = "trial_errors";
      if (only_of_baselines(part.name)) of_either.push_back(&part);
    }
    std::sort(of_either.begin(), of_either.end(),
              [](const FoundTable* a, const FoundTable* b) { return a->page < b->page; });
    for (std::size_t i = of_either.size() > 1 ? 1 : 0; i < of_either.size(); ++i)
      of_either[i]->table = "baseline_errors";
  }

  bool only_of_baselines(const std::string& part) {
    try {
      SQLite::Statement owners(damaged_, fmt::format("SELECT DISTINCT owner FROM {}", part));
      SQLite::Statement known(out_, "SELECT 1 FROM baselines WHERE id = ?");
      while (owners.executeStep()) {
        known.reset();
        known.bind(1, owners.getColumn(0).getInt64());
        if (!known.executeStep()) return false;
      }
    } catch (const SQLite::Exception&) {
      // What was read until then decides.
    }
    return true;
  }

  /// Errors have no id of their own: those of each row of the owner.
  void errors(const char* name, const char* owner, const char* owners) {
    const ColumnNames& columns = column_names<ErrorRecord>();
    SQLite::Statement insert(
        out_, fmt::format("INSERT INTO {} ({}, {}) VALUES (?, {}) ON CONFLICT DO NOTHING", name, owner,
                          columns.names, columns.placeholders));
    const char* key = found_.empty() ? owner : "owner";
    bool broken = false;
    for (const std::string& part : names_of(name)) {
      const std::string select =
          fmt::format("SELECT {}, {} FROM {} WHERE {} BETWEEN ? AND ?", key, columns.names, part, key);
      SQLite::Statement ids(out_, fmt::format("SELECT id FROM {}", owners));
      while (ids.executeStep()) {
        const std::int64_t id = ids.getColumn(0).getInt64();
        broken = pass(select, id, id, insert).broken || broken;
      }
    }
    if (broken) result_.damaged.push_back(name);
    if (broken || !found_.empty()) remove_incomplete_errors(name, owner);
  }

  /// The row that is lost may be the one that said how inaccurate a trial is: unknown is better than part of
  /// it.
  void remove_incomplete_errors(const char* name, const char* owner) {
    constexpr int kDistributions = 3;
    out_.exec(fmt::format("DELETE FROM {} WHERE {} IN (SELECT {} FROM {} GROUP BY {} HAVING count(*) < {})",
                          name, owner, owner, name, owner, kDistributions));
  }

  void replace_lost_sessions() {
    SQLite::Statement lost(
        out_,
        "SELECT session, min(id) FROM trials WHERE session NOT IN (SELECT id FROM sessions) "
        "GROUP BY session");
    SQLite::Statement insert(
        out_,
        "INSERT INTO sessions (id, uuid, device, environment, problem, strategy, seed, accuracy, started, "
        "finished, "
        "state, command_line, host) SELECT session, ?, device, environment, problem, 'lost', 0, '', started, "
        "started, 'interrupted', '', '' FROM trials WHERE id = ?");
    while (lost.executeStep()) {
      insert.bind(1, make_uuid());
      insert.bind(2, lost.getColumn(1).getInt64());
      insert.exec();
      insert.reset();
    }
  }

  void remove_orphans() {
    const std::string owners[][2] = {
        {"sessions", "device"},       {"sessions", "environment"}, {"sessions", "problem"},
        {"trials", "device"},         {"trials", "environment"},   {"trials", "problem"},
        {"trials", "family"},         {"trials", "session"},       {"baselines", "device"},
        {"baselines", "environment"}, {"baselines", "problem"}};
    for (const auto& [table, column] : owners) {
      const std::string parent = column == "family" ? "families" : column + "s";
      result_.orphans +=
          out_.exec(fmt::format("DELETE FROM {} WHERE {} NOT IN (SELECT id FROM {})", table, column, parent));
    }
    out_.exec("DELETE FROM trial_errors WHERE trial NOT IN (SELECT id FROM trials)");
    out_.exec("DELETE FROM baseline_errors WHERE baseline NOT IN (SELECT id FROM baselines)");
    out_.exec(
        "DELETE FROM trial_code WHERE trial NOT IN (SELECT id FROM trials) "
        "OR code NOT IN (SELECT id FROM machine_code)");
    out_.exec("DELETE FROM machine_code WHERE id NOT IN (SELECT code FROM trial_code)");
  }

  static constexpr std::int64_t kProbedIds = 1 << 24;

  SQLite::Database damaged_;
  std::vector<FoundTable> found_;
  SQLite::Database& out_;
  SalvageResult result_;
};

SalvageResult rescue(const fs::path& damaged, std::vector<FoundTable> found, const fs::path& out) {
  Store::open(out, Store::Mode::read_write);
  SQLite::Database target(out.string(), SQLite::OPEN_READWRITE);
  SQLite::Transaction transaction(target);
  const SalvageResult result = Rescue(damaged, std::move(found), target).run();
  transaction.commit();
  return result;
}

/// How much came out.
std::int64_t yield(const SalvageResult& result) {
  return result.problems + result.sessions + result.trials + result.baselines + result.codes + result.errors;
}

void remove_database(const fs::path& path) {
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path.string() + suffix, ignored);
}

}  // namespace

SalvageResult salvage(const fs::path& damaged, const fs::path& out) {
  if (fs::exists(out)) {
    throw UserError(
        fmt::format("'{}' exists: give the name of a new file for what can be read", out.string()));
  }
  if (!fs::is_regular_file(damaged)) throw UserError(fmt::format("there is no file '{}'", damaged.string()));
  try {
    const ScratchFolder scratch(out);
    const fs::path copy = scratch / "copy.db";
    fs::copy_file(damaged, copy);
    for (const char* log : {"-wal", "-journal"}) {
      if (fs::exists(damaged.string() + log)) fs::copy_file(damaged.string() + log, copy.string() + log);
    }
    std::optional<SalvageResult> best;
    if (lists_its_tables(copy)) best = rescue(copy, {}, out);
    // Where the list of tables is lost, or leads to damage, the pages themselves may yield more.
    if (!best || !best->damaged.empty()) {
      const fs::path listed = scratch / "listed.db", attempt = scratch / "attempt.db";
      std::vector<FoundTable> found = list_tables_anew(read_file(damaged), listed);
      if (!found.empty()) {
        SalvageResult result = rescue(listed, std::move(found), attempt);
        result.schema_rebuilt = true;
        if (!best || yield(result) > yield(*best)) {
          best = result;
          remove_database(out);
          SQLite::Database(attempt.string(), SQLite::OPEN_READWRITE)
              .execAndGet("PRAGMA journal_mode = DELETE");
          fs::rename(attempt, out);
        }
      }
    }
    if (!best || best->problems == 0) {
      throw UserError(fmt::format("nothing of a knobwise database can be read in '{}': restore a copy",
                                  damaged.string()));
    }
    return *best;
  } catch (const UserError&) {
    remove_database(out);
    throw;
  } catch (const SQLite::Exception& failure) {
    remove_database(out);
    throw_translated(failure, out.string());
  } catch (const fs::filesystem_error& failure) {
    remove_database(out);
    throw UserError(fmt::format("cannot salvage to '{}': {}", out.string(), failure.what()));
  }
}

}  // namespace knobwise
