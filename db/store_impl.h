// The state behind Store and the statements that every table shares. Private to db/.
#pragma once

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/core.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "db/columns.h"
#include "db/connection.h"
#include "db/errors.h"
#include "db/query.h"
#include "db/store.h"

namespace knobwise {

struct Store::Impl {
  std::filesystem::path path;
  bool read_only = false;
  Connection connection;
  /// By text; declared after the connection, which must outlive it.
  std::unordered_map<std::string, std::unique_ptr<SQLite::Statement>> statements;

  SQLite::Statement& prepare(const std::string& sql) {
    std::unique_ptr<SQLite::Statement>& statement = statements[sql];
    if (!statement) statement = std::make_unique<SQLite::Statement>(connection.database, sql);
    return *statement;
  }

  /// Schema 1 had neither machine code nor trials.allclose.
  bool holds_code() const { return connection.version >= 2; }
  bool marks_accurate_trials() const { return connection.version >= 2; }

  std::string name() const { return path.empty() ? "in memory" : path.string(); }

  /// Runs the body of a public call; failures of SQLite leave it translated.
  template <class Body>
  auto guard(Body&& body) {
    try {
      return body();
    } catch (const SQLite::Exception& failure) {
      throw_translated(failure, name());
    }
  }

  /// guard() within one transaction that may write. It takes the write lock at once: waiting for it later,
  /// with a snapshot already taken, would fail instead.
  template <class Body>
  auto transact(Body&& body) {
    return guard([&] {
      SQLite::Transaction transaction(connection.database, SQLite::TransactionBehavior::IMMEDIATE);
      if constexpr (std::is_void_v<decltype(body())>) {
        body();
        transaction.commit();
      } else {
        auto result = body();
        transaction.commit();
        return result;
      }
    });
  }

  /// Inserts without regard to conflicts unless `on_conflict` says more; the id of the row, if
  /// one was inserted.
  template <class Record>
  std::optional<std::int64_t> insert(const Record& record, const char* on_conflict = "") {
    static const ColumnNames& columns = column_names<Record>();
    Query query(prepare(fmt::format("INSERT INTO {} ({}) VALUES ({}) {} RETURNING id", kTable<Record>,
                                    columns.names, columns.placeholders, on_conflict)));
    bind_columns(query, record);
    std::optional<std::int64_t> id;
    while (query.next()) id = query.read_integer();
    return id;
  }

  /// The errors of one trial or baseline; `table` is trial_errors or baseline_errors, `owner`
  /// its first column.
  void insert_errors(const char* table, const char* owner, std::int64_t id,
                     const std::vector<ErrorRecord>& errors) {
    static const ColumnNames& columns = column_names<ErrorRecord>();
    for (const ErrorRecord& error : errors) {
      Query query(prepare(fmt::format("INSERT INTO {} ({}, {}) VALUES (?, {})", table, owner, columns.names,
                                      columns.placeholders)));
      query.bind(id);
      bind_columns(query, error);
      query.run();
    }
  }

  template <class Record>
  Record row(std::int64_t id) {
    Query query(
        prepare(fmt::format("SELECT {} FROM {} WHERE id = ?", column_names<Record>().names, kTable<Record>)));
    query.bind(id);
    if (!query.next()) {
      throw std::invalid_argument(
          fmt::format("database '{}' has no row {} in {}", name(), id, kTable<Record>));
    }
    return read_columns<Record>(query);
  }

  template <class Record>
  std::vector<Stored<Record>> rows() {
    Query query(prepare(
        fmt::format("SELECT id, {} FROM {} ORDER BY id", column_names<Record>().names, kTable<Record>)));
    std::vector<Stored<Record>> all;
    while (query.next()) {
      const std::int64_t id = query.read_integer();
      all.push_back({id, read_columns<Record>(query)});
    }
    return all;
  }

  /// The single integer that a query yields, if it yields a row.
  template <class... Values>
  std::optional<std::int64_t> find(const std::string& sql, const Values&... values) {
    Query query(prepare(sql));
    (query.bind(values), ...);
    if (!query.next()) return std::nullopt;
    return query.read_integer();
  }

  /// Runs an UPDATE by id; std::invalid_argument when no row qualifies.
  template <class... Values>
  void update(const std::string& what, const std::string& sql, const Values&... values) {
    {
      Query query(prepare(sql));
      (query.bind(values), ...);
      query.run();
    }
    if (connection.database.getChanges() == 0) {
      throw std::invalid_argument(fmt::format("database '{}' has no such {}", name(), what));
    }
  }

  /// Finds the row of an equal record or adds it; `search` yields its id. Another process may add
  /// it in between.
  template <class Record, class Search>
  std::int64_t intern(const Record& record, Search&& search) {
    return guard([&] {
      if (const auto id = search()) return *id;
      if (const auto id = insert(record, "ON CONFLICT DO NOTHING")) return *id;
      return search().value();
    });
  }
};

}  // namespace knobwise
