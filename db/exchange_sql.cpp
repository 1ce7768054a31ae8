// SQL text: what `sqlite3 FILE .dump` would write, but that it keeps the application and version.
#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>
#include <sqlite3.h>

#include <istream>
#include <iterator>
#include <ostream>
#include <string_view>

#include "db/connection.h"
#include "db/errors.h"
#include "db/exchange_formats.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

/// The stored columns of a table, quoted.
std::vector<std::string> columns_of(SQLite::Database& database, const std::string& table) {
  SQLite::Statement query(database, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid");
  query.bind(1, table);
  std::vector<std::string> names;
  while (query.executeStep()) names.push_back(fmt::format("\"{}\"", query.getColumn(0).getString()));
  return names;
}

void write_rows(SQLite::Database& database, const std::string& table, std::ostream& out) {
  std::string names, values;
  for (const std::string& column : columns_of(database, table)) {
    names += (names.empty() ? "" : ", ") + column;
    values += fmt::format("{}quote({})", values.empty() ? "" : " || ', ' || ", column);
  }
  SQLite::Statement rows(database, fmt::format("SELECT {} FROM \"{}\"", values, table));
  while (rows.executeStep())
    out << fmt::format("INSERT INTO \"{}\" ({}) VALUES ({});\n", table, names, rows.getColumn(0).getString());
}

void write_definitions(SQLite::Database& database, const char* condition, std::ostream& out) {
  SQLite::Statement query(database,
                          fmt::format("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE "
                                      "'sqlite_%' AND {} ORDER BY rowid",
                                      condition));
  while (query.executeStep()) out << query.getColumn(0).getString() << ";\n";
}

/// What statements of a dump may do: define and fill tables of the database at hand. No other file, no
/// setting but those that say what the file is, no function that reaches outside.
int authorize(void*, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_VIEW:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_TRANSACTION:
    case SQLITE_REINDEX:
      return SQLITE_OK;
    case SQLITE_PRAGMA: {
      const std::string_view name = first ? first : "";
      return name == "application_id" || name == "user_version" || name == "foreign_keys" ? SQLITE_OK
                                                                                          : SQLITE_DENY;
    }
    case SQLITE_FUNCTION: {
      const std::string_view name = second ? second : "";
      return name == "load_extension" || name == "writefile" || name == "readfile" ? SQLITE_DENY : SQLITE_OK;
    }
    default:
      return SQLITE_DENY;
  }
}

}  // namespace

void write_sql(const std::filesystem::path& path, std::ostream& out) {
  try {
    Connection connection = open_read_only(path);
    SQLite::Database& database = connection.database;
    SQLite::Transaction snapshot(database);
    out << "-- A knobwise database. 'knobwise db import' merges it into another; 'sqlite3 new.db < THIS' "
           "makes it anew.\n"
           "PRAGMA foreign_keys = OFF;\nBEGIN;\n";
    out << fmt::format("PRAGMA application_id = {};\nPRAGMA user_version = {};\n",
                       database.execAndGet("PRAGMA application_id").getInt64(), connection.version);
    write_definitions(database, "type = 'table'", out);
    SQLite::Statement tables(
        database,
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' "
        "ORDER BY rowid");
    while (tables.executeStep()) write_rows(database, tables.getColumn(0).getString(), out);
    // Triggers come after the rows that they would count again.
    write_definitions(database, "type <> 'table'", out);
    out << "COMMIT;\n";
  } catch (const SQLite::Exception& failure) {
    throw_translated(failure, path.string());
  }
}

void run_sql(const std::filesystem::path& path, std::istream& in, const std::string& name) {
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  try {
    SQLite::Database database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    sqlite3_set_authorizer(database.getHandle(), authorize, nullptr);
    database.exec(text);
    sqlite3_set_authorizer(database.getHandle(), nullptr, nullptr);
    open_read_only(path);  // says when it is anything else
  } catch (const std::exception& failure) {
    throw UserError(fmt::format("{}: is not SQL text of a knobwise database: {}", name, failure.what()));
  }
}

}  // namespace knobwise
