// Removing trials.
#include "db/store.h"
#include "db/store_impl.h"

namespace knobwise {
namespace {

/// Whoever stays is among the first in one of the two orders.
constexpr const char* kAllButTheBest = R"(
INSERT OR IGNORE INTO temp.doomed
SELECT id FROM (
  SELECT id, status, allclose,
    row_number() OVER (PARTITION BY problem, device, environment, family, precision, status = 'ok'
                       ORDER BY time_us, id) AS in_precision,
    row_number() OVER (PARTITION BY problem, device, environment, family, status = 'ok' AND allclose
                       ORDER BY time_us, id) AS in_accuracy
  FROM trials WHERE id NOT IN (SELECT id FROM temp.doomed))
WHERE status <> 'ok' OR (in_precision > ?1 AND NOT (allclose AND in_accuracy <= ?1)))";

/// Fills temp.doomed with the ids of the trials to remove.
void condemn(SQLite::Database& database, const PruneOptions& options) {
  database.exec("CREATE TEMP TABLE IF NOT EXISTS doomed (id INTEGER PRIMARY KEY); DELETE FROM temp.doomed");
  for (const TrialGroup& group : options.groups) {
    SQLite::Statement add(database,
                          "INSERT OR IGNORE INTO temp.doomed SELECT id FROM trials WHERE device = ? AND "
                          "environment = ? AND family = ?");
    add.bind(1, group.device);
    add.bind(2, group.environment);
    add.bind(3, group.family);
    add.exec();
  }
  if (options.failed)
    database.exec("INSERT OR IGNORE INTO temp.doomed SELECT id FROM trials WHERE status <> 'ok'");
  if (options.keep_best) {
    SQLite::Statement add(database, kAllButTheBest);
    add.bind(1, *options.keep_best);
    add.exec();
  }
}

PruneResult count(SQLite::Database& database, const PruneOptions& options) {
  const auto number = [&](const char* sql) { return database.execAndGet(sql).getInt64(); };
  return {.trials = number("SELECT count(*) FROM temp.doomed"),
          .sessions = number("SELECT count(*) FROM sessions AS s WHERE state <> 'running' "
                             "AND EXISTS (SELECT 1 FROM trials WHERE session = s.id) "
                             "AND NOT EXISTS (SELECT 1 FROM trials WHERE session = s.id "
                             "                AND id NOT IN (SELECT id FROM temp.doomed))"),
          .codes = number(
              options.code ? "SELECT count(*) FROM trial_code"
                           : "SELECT count(*) FROM trial_code WHERE trial IN (SELECT id FROM temp.doomed)")};
}

void remove(SQLite::Database& database, const PruneOptions& options) {
  // The sessions first, by what will be left of them; their references are checked when all is done.
  database.exec("PRAGMA defer_foreign_keys = ON");
  database.exec(
      "DELETE FROM sessions WHERE state <> 'running' AND EXISTS (SELECT 1 FROM trials WHERE session = "
      "sessions.id) "
      "AND NOT EXISTS (SELECT 1 FROM trials WHERE session = sessions.id "
      "                AND id NOT IN (SELECT id FROM temp.doomed))");
  if (options.code) database.exec("DELETE FROM trial_code");
  database.exec("DELETE FROM trials WHERE id IN (SELECT id FROM temp.doomed)");
  database.exec("DELETE FROM machine_code WHERE id NOT IN (SELECT code FROM trial_code)");
}

}  // namespace

std::vector<TrialGroup> Store::groups() const {
  return impl_->guard([&] {
    std::vector<TrialGroup> found;
    Query query(impl_->prepare(
        "SELECT device, environment, family, count(*) FROM trials GROUP BY device, environment, family"));
    while (query.next()) {
      TrialGroup& group = found.emplace_back();
      query.read(group.device);
      query.read(group.environment);
      query.read(group.family);
      query.read(group.trials);
    }
    return found;
  });
}

PruneResult Store::prune_preview(const PruneOptions& options) {
  return impl_->transact([&] {
    condemn(impl_->connection.database, options);
    return count(impl_->connection.database, options);
  });
}

PruneResult Store::prune(const PruneOptions& options) {
  SQLite::Database& database = impl_->connection.database;
  const PruneResult result = impl_->transact([&] {
    condemn(database, options);
    const PruneResult counts = count(database, options);
    remove(database, options);
    return counts;
  });
  impl_->guard([&] { database.exec("DROP TABLE temp.doomed"); });
  // Only worth a moment: readers and writers of other processes go first.
  constexpr int kPatienceMs = 200;
  database.setBusyTimeout(kPatienceMs);
  impl_->statements.clear();
  database.tryExec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  database.setBusyTimeout(kBusyTimeoutMs);
  return result;
}

}  // namespace knobwise
