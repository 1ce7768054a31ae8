// Opening a database file safely: what it is, whether it may be written, and how its journal works there.
#pragma once

#include <SQLiteCpp/Database.h>

#include <filesystem>

namespace knobwise {

/// An open file that is known to be a knobwise database of a readable version.
struct Connection {
  SQLite::Database database;
  int version = 0;
};

/// Opens for reading and writing; creates or upgrades the schema. A file that is anything but a knobwise
/// database, no database at all, or newer than this build is never changed: UserError.
Connection open_writable(const std::filesystem::path& path);

/// Opens an existing database for reading, also where neither the file nor its folder can be written.
/// A newer version is accepted as long as it still has what this build reads. Throws UserError.
Connection open_read_only(const std::filesystem::path& path);

/// A fresh private database in memory.
Connection open_in_memory();

}  // namespace knobwise
