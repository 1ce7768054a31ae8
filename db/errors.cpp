#include "db/errors.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <stdexcept>

#include "search_spaces/user_error.h"

namespace knobwise {

void throw_translated(const SQLite::Exception& failure, const std::string& name) {
  const auto user_error = [&name](const char* text) {
    throw UserError(fmt::format("database '{}' {}", name, text));
  };
  switch (failure.getErrorCode()) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      user_error("stayed locked by another process: end that process, or try again");
      break;
    case SQLITE_FULL:
      user_error("cannot grow, the disk is full: free some space");
      break;
    case SQLITE_READONLY:
      user_error("cannot be written: check the permissions of the file and its folder");
      break;
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      user_error("cannot be opened: check that its folder exists and that you may read and write there");
      break;
    case SQLITE_CORRUPT:
      user_error(
          "is damaged or cut short: restore a copy, or get out what can be read with 'knobwise db salvage'");
      break;
    case SQLITE_NOTADB:
      user_error("is not a database: give another path; the file was left as it is");
      break;
    case SQLITE_IOERR:
      user_error(
          "cannot be read or written, the disk reports an error: check for free space, the disk and the "
          "mount");
      break;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
      throw std::invalid_argument(fmt::format("database '{}' refuses a record: {}", name, failure.what()));
    default:
      break;
  }
  throw std::runtime_error(fmt::format("database '{}': {}", name, failure.what()));
}

}  // namespace knobwise
