// Opening a database file safely: what it is, whether it may be written, and how its journal works there.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace knobwise {

/// How long a connection waits for the locks of others.
inline constexpr int kBusyTimeoutMs = 60'000;

/// An open file that is known to be a knobwise database of a readable version.
struct Connection {
  SQLite::Database database;
  int version = 0;
  bool immutable = false;  ///< Opened without locks: neither the file nor its folder can be written.
};

/// Opens for reading and writing; creates the schema, or upgrades it with a backup beside the file. A file
/// that is anything but a knobwise database, no database at all, or newer than this build is never changed:
/// UserError.
Connection open_writable(const std::filesystem::path& path);

/// Opens an existing database for reading, also where neither the file nor its folder can be written.
/// Another version is accepted as it is: whether it has what this build reads shows later. Throws UserError.
Connection open_read_only(const std::filesystem::path& path, int busy_timeout_ms = kBusyTimeoutMs);

/// Attaches an existing database under a name, only for reading, also where nothing can be written. Throws
/// UserError as open_read_only() does, SQLite::Exception if `database` cannot attach more.
void attach_read_only(SQLite::Database& database, const std::filesystem::path& path, const char* name);

/// A fresh private database in memory.
Connection open_in_memory();

}  // namespace knobwise
