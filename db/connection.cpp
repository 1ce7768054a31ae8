#include "db/connection.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "db/backup.h"
#include "db/errors.h"
#include "db/file_system.h"
#include "db/migrations.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

constexpr int kApplicationId = 0x6B6E6F62;  // "knob"; see db/migrations/0001_initial.sql

constexpr int kOldestVersion = 1;

/// A database may come from anywhere: what its schema says must not reach beyond it. (A writer cannot be as
/// strict: SQLite counts json_valid(), which the schema's conditions use, among what it should not trust.)
void distrust(SQLite::Database& database) {
  database.exec("PRAGMA trusted_schema = OFF");
  database.exec("PRAGMA cell_size_check = ON");
}

/// What a file turned out to be.
struct Identity {
  bool fresh = false;  ///< No tables and no owner yet.
  int version = 0;
};

/// Bytes of the file, read past SQLite's locks and caches but through its handle: opening and closing the
/// file here would drop the locks of every other connection of this process. Fewer than asked for where the
/// file ends.
std::string raw_bytes(SQLite::Database& database, std::size_t size) {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(database.getHandle(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  std::string bytes(size, '\0');
  const int read = file->pMethods->xRead(file, bytes.data(), static_cast<int>(size), 0);
  if (read != SQLITE_OK && read != SQLITE_IOERR_SHORT_READ)
    throw SQLite::Exception("no header", SQLITE_IOERR);
  return bytes;
}

/// SQLite takes a file of one byte for an empty database and would overwrite it.
void require_database_header(SQLite::Database& database, const fs::path& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  constexpr std::uintmax_t kSmallestPage = 512;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size == 0) return;
  if (raw_bytes(database, kMagic.size()) != kMagic) throw SQLite::Exception("no header", SQLITE_NOTADB);
  if (size < kSmallestPage) throw SQLite::Exception("no whole page", SQLITE_CORRUPT);
}

/// Reads one row of every table: the damage that this meets is found before anything is written or looked up.
void require_readable_tables(SQLite::Database& database) {
  SQLite::Statement tables(
      database,
      "SELECT format('SELECT 1 FROM \"%w\" NOT INDEXED LIMIT 1', name) FROM sqlite_schema "
      "WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  while (tables.executeStep()) SQLite::Statement(database, tables.getColumn(0).getString()).executeStep();
}

/// Reads the identity in one transaction: another process may be creating the schema right now.
Identity read_identity(SQLite::Database& database, const fs::path& path) {
  require_database_header(database, path);
  SQLite::Transaction snapshot(database);
  const int application = database.execAndGet("PRAGMA application_id").getInt();
  const int version = schema_version(database);
  const bool empty = database.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
  if (application == 0 && version == 0 && empty) return {.fresh = true};
  if (application != kApplicationId) {
    throw UserError(fmt::format(
        "'{}' is the database of another application: give another path; the file was left as it is",
        path.string()));
  }
  require_readable_tables(database);
  return {.version = version};
}

/// What SQLite calls an error of a statement is one of the file: the statements are right.
Identity identify(SQLite::Database& database, const fs::path& path) {
  try {
    return read_identity(database, path);
  } catch (const SQLite::Exception& failure) {
    if (failure.getErrorCode() != SQLITE_ERROR) throw;
    throw SQLite::Exception(failure.what(), SQLITE_CORRUPT);
  }
}

void refuse_newer(int version, const fs::path& path) {
  if (version <= latest_schema_version()) return;
  throw UserError(fmt::format(
      "database '{}' has schema version {}, this build writes {}: use a newer knobwise, or open it "
      "read-only",
      path.string(), version, latest_schema_version()));
}

/// Waiting for a lock does not always go through SQLite's busy handler when the journal mode changes.
void set_journal_mode(SQLite::Database& database, const char* mode) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyTimeoutMs);
  for (;;) {
    try {
      database.execAndGet(fmt::format("PRAGMA journal_mode = {}", mode));
      return;
    } catch (const SQLite::Exception& failure) {
      const bool busy = failure.getErrorCode() == SQLITE_BUSY || failure.getErrorCode() == SQLITE_LOCKED;
      if (!busy || std::chrono::steady_clock::now() > deadline) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// A rollback journal must reach the disk before each commit; a write-ahead log stays consistent without.
void configure_journal(SQLite::Database& database, const fs::path& path) {
  const bool log = supports_write_ahead_log(path);
  set_journal_mode(database, log ? "WAL" : "DELETE");
  const bool logging = database.execAndGet("PRAGMA journal_mode").getString() == "wal";
  database.exec(logging ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL");
  // Rarer checkpoints: each waits for the disk twice. The log then grows to 16 MB.
  database.exec("PRAGMA wal_autocheckpoint = 4000");
}

/// An absolute path is never taken for SQLite's special names (":memory:", "file:...").
fs::path checked_path(const fs::path& path) {
  if (path.empty()) throw UserError("the path of the database is empty: give a file name");
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw UserError(fmt::format("'{}' is a folder, not a database: give a file name", path.string()));
  }
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    throw UserError(fmt::format("'{}' is not an ordinary file: give another path", path.string()));
  }
  return fs::absolute(path);
}

/// A "file:" URI with a parameter: `immutable=1` tells SQLite that the file cannot change: no locks, no files
/// next to it.
std::string file_uri(const fs::path& path, const char* parameter) {
  std::string uri = "file:";
  for (const char c : path.string()) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri + "?" + parameter;
}

bool has_content(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return !error && size > 0;
}

Connection identify_for_reading(SQLite::Database database, const fs::path& path) {
  const Identity identity = identify(database, path);
  if (identity.fresh)
    throw UserError(fmt::format("database '{}' is empty: tune something first", path.string()));
  if (identity.version < kOldestVersion) {
    throw UserError(fmt::format("database '{}' has schema version {}, which never existed: restore a copy",
                                path.string(), identity.version));
  }
  distrust(database);
  return {.database = std::move(database), .version = identity.version};
}

Connection open_immutable(const fs::path& path) {
  SQLite::Database database(file_uri(path, "immutable=1"),
                            SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI);
  Connection connection = identify_for_reading(std::move(database), path);
  connection.immutable = true;
  return connection;
}

/// A log needs memory that all who use the file share: where there is none, a file that was made elsewhere,
/// with a log, is read as one that does not change. (A writer does without a log there.)
void require_no_log_on_network(SQLite::Database& database, const fs::path& path) {
  constexpr std::size_t kReadVersion = 19;
  if (supports_write_ahead_log(path) || raw_bytes(database, kReadVersion + 1)[kReadVersion] != 2) return;
  throw SQLite::Exception("a log on a network file system", SQLITE_CANTOPEN);
}

/// True when SQLite could not lock or log next to the file, which an unchanging file does not need.
bool lacks_write_access(const SQLite::Exception& failure) {
  const int code = failure.getErrorCode();
  return code == SQLITE_CANTOPEN || code == SQLITE_READONLY || code == SQLITE_PERM;
}

}  // namespace

Connection open_writable(const fs::path& given) {
  const fs::path path = checked_path(given);
  try {
    SQLite::Database database(
        path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI,
        kBusyTimeoutMs);
    const Identity identity = identify(database, path);
    refuse_newer(identity.version, path);
    if (sqlite3_db_readonly(database.getHandle(), "main") != 0) {
      throw UserError(
          fmt::format("database '{}' is write-protected: change its permissions, open it read-only, or give "
                      "another path for new results",
                      path.string()));
    }
    configure_journal(database, path);
    migrate(database, [&](int version) { back_up(path, version); });
    const int version = schema_version(database);
    refuse_newer(version, path);  // Another process may have upgraded it meanwhile.
    return {.database = std::move(database), .version = version};
  } catch (const SQLite::Exception& failure) {
    throw_translated(failure, path.string());
  }
}

Connection open_read_only(const fs::path& given, int busy_timeout_ms) {
  const fs::path path = checked_path(given);
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw UserError(
        fmt::format("no database at '{}': check the path, or make one: knobwise tune PROBLEM --db {}",
                    path.string(), path.string()));
  }
  try {
    try {
      SQLite::Database database(path.string(), SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, busy_timeout_ms);
      require_no_log_on_network(database, path);
      return identify_for_reading(std::move(database), path);
    } catch (const SQLite::Exception& failure) {
      if (!lacks_write_access(failure)) throw;
      if (has_content(path.string() + "-wal") || has_content(path.string() + "-journal")) {
        throw UserError(fmt::format(
            "database '{}' has changes in a file next to it that cannot be taken over in a folder "
            "that is write-protected or on a network: open it once for writing, or copy all its files",
            path.string()));
      }
      return open_immutable(path);
    }
  } catch (const SQLite::Exception& failure) {
    throw_translated(failure, path.string());
  }
}

void attach_read_only(SQLite::Database& database, const fs::path& path, const char* name) {
  const bool immutable = open_read_only(path).immutable;
  SQLite::Statement attach(database, fmt::format("ATTACH ? AS {}", name));
  attach.bind(1, file_uri(checked_path(path), immutable ? "immutable=1" : "mode=ro"));
  attach.exec();
}

Connection open_in_memory() {
  SQLite::Database database(
      ":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX | SQLite::OPEN_URI);
  migrate(database, [](int) {});
  return {.database = std::move(database), .version = latest_schema_version()};
}

}  // namespace knobwise
