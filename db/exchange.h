// Databases as text: T4 JSON, CSV and SQL, described in docs/exchange.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "db/store.h"

namespace knobwise {

enum class ExchangeFormat {
  t4,   ///< The autotuning community's results format, with the rest of each trial in fields of our own.
  csv,  ///< One trial a line.
  sql,  ///< Statements that make the whole database.
};

/// "t4", "csv" or "sql"; UserError on any other word.
ExchangeFormat parse_exchange_format(const std::string& word);
/// By the name of a file: .json, .csv, .sql; none for others.
std::optional<ExchangeFormat> exchange_format_of(const std::filesystem::path& path);

struct ExportOptions {
  ExchangeFormat format = ExchangeFormat::t4;
  std::optional<std::string> problem = std::nullopt;  ///< Only the trials of this line; not for sql.
};

struct ExportResult {
  std::int64_t trials = 0;
  std::vector<std::string>
      left_out;  ///< What the format has no place for, in words with numbers; empty: nothing.
};

/// Writes a database. Throws UserError when the database cannot be read or nothing is asked for.
ExportResult export_database(const Store& store, const ExportOptions& options, std::ostream& out);

/// Reads what export_database() wrote and merges it (see Store::merge()) into the database at `target`, which
/// is made if it is not there: importing twice changes nothing. `name` is for messages. Throws UserError,
/// naming the place, for text that is not of the format; the target is unchanged then, and not made.
MergeResult import_database(const std::filesystem::path& target, ExchangeFormat format, std::istream& in,
                            const std::string& name);

}  // namespace knobwise
