// The numbered schema migrations (db/migrations/NNNN_name.sql), embedded in the library.
#pragma once

#include <SQLiteCpp/Database.h>

#include <functional>
#include <string_view>
#include <vector>

namespace knobwise {

struct Migration {
  int version = 0;       ///< The number its file name starts with.
  std::string_view sql;  ///< Valid for the life of the program.
};

/// All migrations in order of version: 1, 2, 3...
const std::vector<Migration>& migrations();

/// The version that the last migration leads to.
int latest_schema_version();

/// PRAGMA user_version.
int schema_version(SQLite::Database& database);

/// Applies every migration above the database's version, all in one transaction, and checks the foreign keys.
/// Safe when several processes do it at once. `before_upgrade` is called with the present version, under the
/// write lock, before a database that has one is changed; what it throws leaves the database as it is.
/// Foreign keys are enforced afterwards. Throws SQLite::Exception.
void migrate(SQLite::Database& database, const std::function<void(int)>& before_upgrade);

}  // namespace knobwise
