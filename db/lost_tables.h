// The tables of a file whose own list of them is lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace knobwise {

/// A tree of pages that holds rows of one of our tables.
struct FoundTable {
  std::string table;       ///< "trials": what its rows look like; "errors" are of trials or of baselines.
  std::string name;        ///< What it is called in the file that list_tables_anew() wrote.
  std::uint32_t page = 0;  ///< Where it begins. Tables that were made later tend to begin later.
};

/// Writes to `target` a database with the pages of `damaged`, the content of a file, and a new list of
/// tables: each tree of pages that no other page refers to, under the columns that its rows have. Pages that
/// the damaged file no longer used are found as well: what is likely to be newer comes first. Throws
/// SQLite::Exception.
std::vector<FoundTable> list_tables_anew(std::string damaged, const std::filesystem::path& target);

}  // namespace knobwise
