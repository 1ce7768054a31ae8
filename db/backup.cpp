#include "db/backup.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <unistd.h>

#include <system_error>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

void copy_database(const fs::path& from, const fs::path& to) {
  SQLite::Database source(from.string(), SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX);
  SQLite::Database target(to.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX);
  if (SQLite::Backup(target, source).executeStep(-1) != SQLITE_DONE)
    throw SQLite::Exception("the database stayed locked", SQLITE_BUSY);
  // One file without a log, as a copy to keep should be.
  target.execAndGet("PRAGMA journal_mode = DELETE");
}

/// Gives the copy its name unless that is taken.
bool publish(const fs::path& temporary, const fs::path& name) {
  std::error_code error;
  fs::create_hard_link(temporary, name, error);
  if (!error) return true;
  if (error == std::errc::file_exists) return false;
  // A file system without hard links.
  if (fs::exists(name)) return false;
  fs::rename(temporary, name);
  return true;
}

}  // namespace

void back_up(const fs::path& database, int version) {
  const fs::path base = fmt::format("{}.schema{}.backup", database.string(), version);
  const fs::path temporary = fmt::format("{}.{}", base.string(), getpid());
  std::error_code ignored;
  try {
    copy_database(database, temporary);
    fs::path name = base;
    for (int number = 2; !publish(temporary, name); ++number)
      name = fmt::format("{}.{}", base.string(), number);
    fs::remove(temporary, ignored);
  } catch (const std::exception& failure) {
    fs::remove(temporary, ignored);
    throw UserError(
        fmt::format("database '{}' is of an older version and was not upgraded, the backup '{}' cannot be "
                    "written ({}): make room, or give a copy elsewhere",
                    database.string(), base.string(), failure.what()));
  }
}

}  // namespace knobwise
