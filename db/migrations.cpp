#include "db/migrations.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

#include "embedded/db_migrations.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {

const std::vector<Migration>& migrations() {
  static const auto& sorted = never_destroyed([] {
    std::vector<Migration> all;
    for (const auto& [name, sql] : db_migrations()) {
      Migration migration{.sql = sql};
      std::from_chars(name.data(), name.data() + name.size(), migration.version);
      all.push_back(migration);
    }
    std::sort(all.begin(), all.end(),
              [](const Migration& a, const Migration& b) { return a.version < b.version; });
    return all;
  }());
  return sorted;
}

int latest_schema_version() {
  return migrations().back().version;
}

int schema_version(SQLite::Database& database) {
  return database.execAndGet("PRAGMA user_version").getInt();
}

void migrate(SQLite::Database& database, const std::function<void(int)>& before_upgrade) {
  // A migration may rebuild a table that others refer to; the pragma has no effect inside a transaction.
  database.exec("PRAGMA foreign_keys = OFF");
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const int version = schema_version(database);
  if (version > 0 && version < latest_schema_version()) before_upgrade(version);
  for (const Migration& migration : migrations()) {
    if (migration.version <= version) continue;
    database.exec(std::string(migration.sql));
    database.exec(fmt::format("PRAGMA user_version = {}", migration.version));
  }
  if (SQLite::Statement(database, "PRAGMA foreign_key_check").executeStep()) {
    throw std::runtime_error("a schema migration left rows that refer to missing ones; nothing was changed");
  }
  transaction.commit();
  database.exec("PRAGMA foreign_keys = ON");
}

}  // namespace knobwise
