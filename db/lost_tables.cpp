#include "db/lost_tables.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "db/columns.h"
#include "db/connection.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

// https://www.sqlite.org/fileformat2.html, sections 1.3 and 1.6.
constexpr std::size_t kPageBytes = 4096;
constexpr std::uint8_t kInteriorIndex = 2, kInteriorTable = 5, kLeafIndex = 10, kLeafTable = 13;

/// The content of a file in whole pages, which count from 1.
class Pages {
 public:
  explicit Pages(std::string bytes) : bytes_(std::move(bytes)) {
    bytes_.resize((bytes_.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  }

  const std::string& bytes() const { return bytes_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(bytes_.size() / kPageBytes); }

  std::uint8_t type(std::uint32_t page) const { return byte(page, 0); }
  bool interior(std::uint32_t page) const {
    return type(page) == kInteriorTable || type(page) == kInteriorIndex;
  }
  /// False for pages of indices and of anything else.
  bool of_rows(std::uint32_t page) const { return type(page) == kInteriorTable || type(page) == kLeafTable; }
  bool of_index(std::uint32_t page) const { return type(page) == kInteriorIndex || type(page) == kLeafIndex; }

  /// The pages that an interior page refers to.
  std::vector<std::uint32_t> children(std::uint32_t page) const {
    std::vector<std::uint32_t> found = {number(page, 8)};
    const std::size_t cells = std::min<std::size_t>(pair(page, 3), (kPageBytes - 12) / 2);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const std::size_t at = pair(page, 12 + 2 * cell);
      if (at + 4 <= kPageBytes) found.push_back(number(page, at));
    }
    return found;
  }

  /// Pages of trees that no other page refers to, higher trees first. The first page, which is lost, is none.
  std::vector<std::uint32_t> roots() const {
    std::set<std::uint32_t> referred;
    for (std::uint32_t page = 2; page <= count(); ++page) {
      if (!interior(page)) continue;
      for (const std::uint32_t child : children(page)) referred.insert(child);
    }
    std::vector<std::uint32_t> found;
    for (std::uint32_t page = 2; page <= count(); ++page) {
      if ((of_rows(page) || of_index(page)) && !referred.contains(page)) found.push_back(page);
    }
    std::stable_partition(found.begin(), found.end(), [this](std::uint32_t page) { return interior(page); });
    return found;
  }

 private:
  std::uint8_t byte(std::uint32_t page, std::size_t offset) const {
    return static_cast<std::uint8_t>(bytes_[(page - 1) * kPageBytes + offset]);
  }
  std::uint32_t pair(std::uint32_t page, std::size_t offset) const {
    return static_cast<std::uint32_t>(byte(page, offset)) << 8 | byte(page, offset + 1);
  }
  std::uint32_t number(std::uint32_t page, std::size_t offset) const {
    return pair(page, offset) << 16 | pair(page, offset + 2);
  }

  std::string bytes_;
};

/// How the rows of a table look: their columns, the key first, and of which type the first of them are.
struct Shape {
  const char* table;
  std::vector<const char*> types;
  std::string columns = {};
  bool of_rows = true;  ///< False for a table without ids, which is stored as an index.

  std::string definition() const {
    const std::size_t key = columns.find(',');
    if (of_rows)
      return fmt::format("({} INTEGER PRIMARY KEY{})", columns.substr(0, key), columns.substr(key));
    return fmt::format("({}, PRIMARY KEY (owner, distribution)) WITHOUT ROWID", columns);
  }
};

/// The columns of a table in the order in which its rows hold them.
std::string stored_columns(SQLite::Database& database, const char* table) {
  SQLite::Statement query(database, "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 ORDER BY cid");
  query.bind(1, table);
  std::string columns;
  while (query.executeStep()) columns += (columns.empty() ? "" : ", ") + query.getColumn(0).getString();
  return columns;
}

std::vector<Shape> make_shapes() {
  Connection newest = open_in_memory();
  std::vector<Shape> shapes = {
      {"trials", {"integer", "integer"}},
      {"devices", {"integer", "text", "text"}},
      {"environments", {"integer", "text", "text"}},
      {"problems", {"integer", "text", "text"}},
      // SQLite's own list of tables has the page of each where a family has its hash.
      {"families", {"integer", "text", "text", "text"}},
      {"sessions", {"integer", "text", "integer"}},
      {"baselines", {"integer", "integer"}},
      {"machine_code", {"integer", "text", "integer", "blob"}},
      {"trial_code", {"integer", "integer"}},
  };
  for (Shape& shape : shapes) shape.columns = stored_columns(newest.database, shape.table);
  // Schema 2 has a column more than schema 1.
  Shape older = shapes.front();
  older.columns.resize(older.columns.rfind(", allclose"));
  shapes.push_back(older);
  shapes.push_back({"errors", {"integer", "text"}, "owner, " + column_names<ErrorRecord>().names, false});
  return shapes;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = make_shapes();
  return all;
}

std::size_t width(const std::string& columns) {
  return static_cast<std::size_t>(std::count(columns.begin(), columns.end(), ',')) + 1;
}

/// A database with the pages, whose list of tables is written anew.
class NewList {
 public:
  NewList(const Pages& pages, const fs::path& path) : path_(path) {
    write_pages(pages, path);
    reopen();
  }

  /// Names a tree that begins on the page `root`.
  void add(const std::string& name, std::uint32_t root, const std::string& definition) {
    SQLite::Statement insert(*database_,
                             "INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) "
                             "VALUES ('table', ?1, ?1, ?2, ?3)");
    insert.bind(1, name);
    insert.bind(2, root);
    insert.bind(3, fmt::format("CREATE TABLE {} {}", name, definition));
    insert.exec();
  }

  void clear() { database_->exec("DELETE FROM sqlite_schema"); }

  /// SQLite reads the list when it opens a file.
  void reopen() {
    database_.reset();
    database_.emplace(path_.string(), SQLite::OPEN_READWRITE);
    database_->exec("PRAGMA writable_schema = ON; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF");
  }

  SQLite::Database& database() { return *database_; }

 private:
  /// The first page becomes that of an empty database which says how many pages follow, none of them free.
  static void write_pages(const Pages& pages, const fs::path& path) {
    fs::remove(path);
    {
      SQLite::Database empty(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
      empty.exec(fmt::format("PRAGMA page_size = {}; PRAGMA user_version = 1", kPageBytes));
    }
    constexpr std::streamoff kCountOffset = 28;
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kCountOffset);
    for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(pages.count() >> shift & 0xff));
    file.seekp(static_cast<std::streamoff>(kPageBytes));
    file << std::string_view(pages.bytes()).substr(kPageBytes);
  }

  fs::path path_;
  std::optional<SQLite::Database> database_;
};

/// Whether the row at either end of a tree meets the condition.
bool has_row(SQLite::Database& database, const std::string& table, const std::string& condition) {
  for (const char* order : {"", "DESC"}) {
    try {
      SQLite::Statement query(
          database,
          fmt::format("SELECT {} FROM (SELECT * FROM {} ORDER BY c0 {} LIMIT 1)", condition, table, order));
      if (query.executeStep() && query.getColumn(0).getInt() == 1) return true;
    } catch (const SQLite::Exception&) {
      // The other end may be whole.
    }
  }
  return false;
}

std::string condition_of(const Shape& shape) {
  const std::size_t wide = width(shape.columns);
  std::string condition = fmt::format("c{} IS NOT NULL AND c{} IS NULL", wide - 1, wide);
  for (std::size_t i = 0; i < shape.types.size(); ++i)
    condition += fmt::format(" AND typeof(c{}) = '{}'", i, shape.types[i]);
  return condition;
}

/// Columns that fit any row: those that a row lacks are NULL.
std::string any_definition(bool of_rows) {
  constexpr int kMost = 50;
  std::string others;
  for (int i = 1; i < kMost; ++i) others += fmt::format(", c{}", i);
  return of_rows ? fmt::format("(c0 INTEGER PRIMARY KEY{})", others)
                 : fmt::format("(c0{}, PRIMARY KEY (c0, c1)) WITHOUT ROWID", others);
}

}  // namespace

std::vector<FoundTable> list_tables_anew(std::string damaged, const fs::path& target) {
  const Pages pages(std::move(damaged));
  const std::vector<std::uint32_t> roots = pages.roots();
  if (roots.empty()) return {};
  const auto name = [](std::uint32_t root) { return fmt::format("tree_{}", root); };

  NewList list(pages, target);
  for (const std::uint32_t root : roots) list.add(name(root), root, any_definition(pages.of_rows(root)));
  list.reopen();
  std::map<std::uint32_t, const Shape*> shape_of;
  for (const std::uint32_t root : roots) {
    for (const Shape& shape : shapes()) {
      if (shape.of_rows == pages.of_rows(root) && has_row(list.database(), name(root), condition_of(shape))) {
        shape_of[root] = &shape;
        break;
      }
    }
  }

  list.clear();
  std::vector<FoundTable> found;
  for (const std::uint32_t root : roots) {
    if (!shape_of.contains(root)) continue;
    const Shape& shape = *shape_of[root];
    list.add(name(root), root, shape.definition());
    found.push_back({shape.table, name(root), root});
  }
  return found;
}

}  // namespace knobwise
