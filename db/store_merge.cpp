// Taking over another database: one transaction of SQL that reads the attached source.
#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "db/code_image.h"
#include "db/store.h"
#include "db/store_impl.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

/// The tables that others refer to, with the columns that make two rows one. Each gets a table
/// temp.<referring column>_map from the source's ids to the target's.
struct Interned {
  const char* reference;  ///< The column that refers to it.
  const char* table;
  const char* key;
};
constexpr std::array<Interned, 5> kInterned = {{
    {"device", "devices",
     "backend, vendor, name, architecture, multiprocessors, memory_gib, l2_bytes, shared_memory_per_block"},
    {"environment", "environments", "driver_version, toolkit_version, compiler, knobwise_version, os"},
    {"problem", "problems", "line"},
    {"family", "families", "backend, name, source_hash"},
    {"session", "sessions", "uuid"},
}};

constexpr const char* kTrialKey = "problem, device, family, environment, configuration, session";
constexpr const char* kBaselineKey = "problem, device, environment, name";

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  std::stringstream stream(names);
  for (std::string part; std::getline(stream >> std::ws, part, ',');) parts.push_back(part);
  return parts;
}

bool refers(const std::string& column) {
  return std::any_of(kInterned.begin(), kInterned.end(),
                     [&](const Interned& interned) { return column == interned.reference; });
}

/// The columns of the source row `s` in terms of the target: ids go through their map.
std::string mapped(const std::string& names) {
  std::string list;
  for (const std::string& column : split(names)) {
    list += list.empty() ? "" : ", ";
    list += refers(column) ? column + "_map.target" : "s." + column;
  }
  return list;
}

/// FROM source.TABLE AS s with the maps of the references among `names`; the source drives.
std::string source_rows(const char* table, const std::string& names) {
  std::string from = fmt::format("source.{} AS s", table);
  for (const std::string& column : split(names)) {
    if (refers(column)) from += fmt::format(" CROSS JOIN temp.{0}_map ON {0}_map.id = s.{0}", column);
  }
  return from;
}

/// The target's row `o` is the source's row `s`.
std::string same_key(const std::string& key) {
  std::string condition;
  for (const std::string& column : split(key)) {
    condition += condition.empty() ? "" : " AND ";
    condition += fmt::format("o.{} = {}", column, refers(column) ? column + "_map.target" : "s." + column);
  }
  return condition;
}

/// The merge of the database attached as `source` into `main`, inside a transaction.
class Merge {
 public:
  Merge(SQLite::Database& database, bool source_holds_code)
      : database_(database), codes_(source_holds_code) {}

  MergeResult run() {
    // Facts that are no part of the identity: the greater ones, so that the order does not matter.
    intern<DeviceRecord>(kInterned[0], "memory_bytes, clock_khz, memory_clock_khz, extra");
    intern<EnvironmentRecord>(kInterned[1], "");
    intern<ProblemRecord>(kInterned[2], "flops, compulsory_bytes, op, dtype, layout, epilogue");
    intern<FamilyRecord>(kInterned[3], "");
    result_.sessions = intern_sessions();
    renew_trials();
    result_.trials = add<TrialRecord>("trials", kTrialKey, "trial_errors", "trial");
    remove_older_baselines();
    result_.baselines = add<BaselineRecord>("baselines", kBaselineKey, "baseline_errors", "baseline");
    if (codes_) add_codes();
    return result_;
  }

 private:
  std::int64_t change(const std::string& sql) {
    SQLite::Statement statement(database_, sql);
    statement.exec();
    return statement.getChanges();
  }

  std::int64_t count(const char* table) {
    return database_.execAndGet(fmt::format("SELECT count(*) FROM main.{}", table)).getInt64();
  }

  void map(const Interned& interned) {
    database_.exec(
        fmt::format("CREATE TEMP TABLE {}_map (id INTEGER PRIMARY KEY, target INTEGER)", interned.reference));
    std::string condition;
    for (const std::string& column : split(interned.key))
      condition += fmt::format("{0}o.{1} = s.{1}", condition.empty() ? "" : " AND ", column);
    change(fmt::format(
        "INSERT INTO temp.{0}_map SELECT s.id, o.id FROM source.{1} AS s CROSS JOIN main.{1} AS o ON {2}",
        interned.reference, interned.table, condition));
  }

  /// Of facts in JSON, the longer text: it says more.
  static std::string greater_of(const std::string& column) {
    if (column != "extra") return fmt::format("max({0}, excluded.{0})", column);
    return "CASE WHEN (length(excluded.extra), excluded.extra) > (length(extra), extra) THEN excluded.extra "
           "ELSE extra "
           "END";
  }

  /// `decided`: the columns that take the greater value of both.
  template <class Record>
  void intern(const Interned& interned, const std::string& decided) {
    const std::string& names = column_names<Record>().names;
    std::string conflict = "NOTHING";
    if (!decided.empty()) {
      std::string greater;
      for (const std::string& column : split(decided))
        greater += fmt::format("{0}{1} = {2}", greater.empty() ? "" : ", ", column, greater_of(column));
      conflict = "UPDATE SET " + greater;
    }
    change(fmt::format(
        "INSERT INTO main.{0} ({1}) SELECT {1} FROM source.{0} WHERE true ON CONFLICT ({2}) DO {3}",
        interned.table, names, interned.key, conflict));
    map(interned);
  }

  std::int64_t intern_sessions() {
    const std::int64_t before = count("sessions");
    const std::string& names = column_names<SessionRecord>().names;
    // A copy made while the session ran knows less than a later one.
    change(fmt::format(
        "INSERT INTO main.sessions ({}) SELECT {} FROM {} WHERE true ON CONFLICT (uuid) DO UPDATE "
        "SET (finished, state) = (excluded.finished, excluded.state) WHERE "
        "(coalesce(excluded.finished, ''), excluded.state) > (coalesce(finished, ''), state)",
        names, mapped(names), source_rows("sessions", names)));
    map(kInterned[4]);
    return count("sessions") - before;
  }

  /// Copies of one trial differ only by a later timing.
  void renew_trials() {
    result_.renewed = change(fmt::format(
        "UPDATE main.trials AS o SET (status, reason, time_us, time_kind, time_min_us, time_mean_us, "
        "samples, "
        "retimed) = (s.status, s.reason, s.time_us, s.time_kind, s.time_min_us, s.time_mean_us, s.samples, "
        "s.retimed) FROM {} WHERE s.retimed IS NOT NULL AND {} AND "
        "(s.retimed, s.status, coalesce(s.time_us, 0), s.reason, hex(s.samples)) > "
        "(coalesce(o.retimed, ''), o.status, coalesce(o.time_us, 0), o.reason, hex(o.samples))",
        source_rows("trials", column_names<TrialRecord>().names), same_key(kTrialKey)));
  }

  /// Adds the rows whose key is new, under ids that follow the present ones, with their errors.
  template <class Record>
  std::int64_t add(const char* table, const char* key, const char* errors, const char* owner) {
    const std::string& names = column_names<Record>().names;
    const std::int64_t base =
        database_.execAndGet(fmt::format("SELECT coalesce(max(id), 0) FROM main.{}", table)).getInt64();
    const std::int64_t added = change(
        fmt::format("INSERT INTO main.{0} (id, {1}) SELECT {2} + s.id, {3} FROM {4} WHERE true ORDER BY s.id "
                    "ON CONFLICT ({5}) DO NOTHING",
                    table, names, base, mapped(names), source_rows(table, names), key));
    const std::string& metrics = column_names<ErrorRecord>().names;
    change(
        fmt::format("INSERT INTO main.{0} ({1}, {2}) SELECT {3} + s.{1}, {2} FROM source.{0} AS s "
                    "WHERE EXISTS (SELECT 1 FROM main.{4} AS o WHERE o.id = {3} + s.{1})",
                    errors, owner, metrics, base, table));
    return added;
  }

  void remove_older_baselines() {
    change(fmt::format(
        "DELETE FROM main.baselines WHERE id IN (SELECT o.id FROM {} CROSS JOIN main.baselines AS o "
        "WHERE {} AND (s.started, s.time_us, hex(s.samples)) > (o.started, o.time_us, hex(o.samples)))",
        source_rows("baselines", column_names<BaselineRecord>().names), same_key(kBaselineKey)));
  }

  /// Damaged code stays behind.
  void add_codes() {
    SQLite::Statement code(database_,
                           "SELECT hash, image_bytes, image FROM source.machine_code AS s WHERE NOT EXISTS "
                           "(SELECT 1 FROM main.machine_code AS o WHERE o.hash = s.hash)");
    SQLite::Statement insert(database_,
                             "INSERT INTO main.machine_code (hash, image_bytes, image) VALUES (?, ?, ?)");
    while (code.executeStep()) {
      const std::string hash = code.getColumn(0).getString(), frame = code.getColumn(2).getString();
      const std::int64_t bytes = code.getColumn(1).getInt64();
      if (!decompress_image(frame, bytes, hash)) continue;
      insert.bind(1, hash);
      insert.bind(2, bytes);
      insert.bindNoCopy(3, frame.data(), static_cast<int>(frame.size()));
      insert.exec();
      insert.reset();
    }
    const std::int64_t before = count("trial_code");
    change(fmt::format(
        "INSERT INTO main.trial_code (trial, code) SELECT o.id, mine.id FROM source.trial_code AS link "
        "CROSS JOIN source.machine_code AS theirs ON theirs.id = link.code "
        "CROSS JOIN main.machine_code AS mine ON mine.hash = theirs.hash "
        "CROSS JOIN {} CROSS JOIN main.trials AS o WHERE s.id = link.trial AND {} ON CONFLICT (trial) DO "
        "UPDATE "
        "SET code = excluded.code WHERE (SELECT hash FROM main.machine_code WHERE id = excluded.code) > "
        "(SELECT hash FROM main.machine_code WHERE id = code)",
        source_rows("trials", column_names<TrialRecord>().names), same_key(kTrialKey)));
    result_.codes = count("trial_code") - before;
    change("DELETE FROM main.machine_code WHERE id NOT IN (SELECT code FROM main.trial_code)");
  }

  SQLite::Database& database_;
  bool codes_;
  MergeResult result_;
};

/// Takes memory for the merge, and lets go of it, the source and the maps, whatever happened.
struct Attachment {
  SQLite::Database& database;
  explicit Attachment(SQLite::Database& target) : database(target) {
    // Entries of the indexes go all over the file; pages that do not stay in memory are written again and
    // again.
    database.exec("PRAGMA main.cache_size = -262144");
  }
  ~Attachment() {
    database.tryExec("PRAGMA main.cache_size = -2000");
    for (const Interned& interned : kInterned)
      database.tryExec(fmt::format("DROP TABLE IF EXISTS temp.{}_map", interned.reference));
    database.tryExec("DETACH source");
  }
};

}  // namespace

MergeResult Store::merge(const std::filesystem::path& source) {
  std::error_code unequal;
  if (!path().empty() && std::filesystem::equivalent(path(), source, unequal)) return {};
  const bool source_holds_code = Store::open(source, Mode::read_only).impl_->holds_code();
  SQLite::Database& database = impl_->connection.database;
  const Attachment attachment(database);
  return impl_->guard([&] {
    attach_read_only(database, source, "source");
    try {
      SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
      const MergeResult result = Merge(database, source_holds_code).run();
      transaction.commit();
      return result;
    } catch (const SQLite::Exception& failure) {
      const int code = failure.getErrorCode();
      if (code != SQLITE_CORRUPT && code != SQLITE_CONSTRAINT && code != SQLITE_MISMATCH) throw;
      throw UserError(
          fmt::format("'{}' cannot be merged into '{}', nothing of it was taken over ({}): look at it "
                      "with 'knobwise db check', get out what can be read with 'knobwise db salvage'",
                      source.string(), impl_->name(), failure.what()));
    }
  });
}

}  // namespace knobwise
