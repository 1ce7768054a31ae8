// One run of a cached statement: bind in order, step, read in order.
#pragma once

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "db/records.h"

namespace knobwise {

/// Borrows a prepared statement for one run and resets it at the end. Parameters are bound, and
/// columns of a row are read, from left to right. NaN is bound as NULL; NULL is read as NaN. Every
/// failure is an SQLite::Exception.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) : statement_(statement) {}
  ~Query() { statement_.tryReset(); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& bind(std::int64_t value) { return statement_.bind(++bound_, value), *this; }
  /// Stored as the signed integer of the same bits.
  Query& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
  Query& bind(double value) { return statement_.bind(++bound_, value), *this; }
  Query& bind(const std::string& value) { return statement_.bind(++bound_, value), *this; }
  Query& bind(TrialStatus value) { return bind(std::string(to_string(value))); }
  Query& bind(SessionState value) { return bind(std::string(to_string(value))); }
  Query& bind(TimeKind value) { return bind(std::string(to_string(value))); }
  /// Little-endian 32-bit floats.
  Query& bind(const std::vector<float>& samples);
  /// As a BLOB; borrowed until the end of the run.
  Query& bind_blob(std::string_view bytes) {
    return statement_.bindNoCopy(++bound_, bytes.data(), static_cast<int>(bytes.size())), *this;
  }
  Query& bind(std::nullopt_t) { return statement_.bind(++bound_), *this; }
  template <class Value>
  Query& bind(const std::optional<Value>& value) {
    return value ? bind(*value) : bind(std::nullopt);
  }

  /// Steps to the next row; false after the last one.
  bool next() {
    read_ = 0;
    return statement_.executeStep();
  }
  /// Steps to the end; for statements whose rows do not matter.
  void run() {
    while (next()) {
    }
  }

  std::int64_t read_integer() { return statement_.getColumn(read_++).getInt64(); }
  void read(std::int64_t& value) { value = read_integer(); }
  void read(std::uint64_t& value) { value = static_cast<std::uint64_t>(read_integer()); }
  void read(double& value);
  void read(std::string& value) { value = statement_.getColumn(read_++).getString(); }
  void read(TrialStatus& value) { value = read_word(parse_trial_status); }
  void read(SessionState& value) { value = read_word(parse_session_state); }
  void read(TimeKind& value) { value = read_word(parse_time_kind); }
  void read(std::vector<float>& samples);
  template <class Value>
  void read(std::optional<Value>& value) {
    if (next_is_null()) {
      value.reset();
      ++read_;
    } else {
      read(value.emplace());
    }
  }
  bool next_is_null() const { return statement_.isColumnNull(read_); }
  void skip(int columns) { read_ += columns; }

 private:
  /// The schema admits no other words: one is damage.
  template <class Value>
  Value read_word(Value (*parse)(std::string_view)) {
    try {
      return parse(statement_.getColumn(read_++).getString());
    } catch (const std::invalid_argument& failure) {
      throw SQLite::Exception(failure.what(), SQLITE_CORRUPT);
    }
  }

  SQLite::Statement& statement_;
  int bound_ = 0;
  int read_ = 0;
};

}  // namespace knobwise
