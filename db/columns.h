// The columns of each table, listed once in visit_columns(): statements, binding and reading are derived.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>

#include "db/query.h"
#include "db/records.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {

template <class Row, class Record>
concept RowOf = std::same_as<std::remove_const_t<Row>, Record>;

/// Calls `visit(column name, member)` for every column of a record's table but the id; a timing, which spans
/// several columns, goes to `visit.timing(member)`.
template <RowOf<DeviceRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("backend", row.backend);
  visit("vendor", row.vendor);
  visit("name", row.name);
  visit("architecture", row.architecture);
  visit("multiprocessors", row.multiprocessors);
  visit("memory_bytes", row.memory_bytes);
  visit("clock_khz", row.clock_khz);
  visit("memory_clock_khz", row.memory_clock_khz);
  visit("l2_bytes", row.l2_bytes);
  visit("shared_memory_per_block", row.shared_memory_per_block);
  visit("extra", row.extra);
}

template <RowOf<EnvironmentRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("driver_version", row.driver_version);
  visit("toolkit_version", row.toolkit_version);
  visit("compiler", row.compiler);
  visit("knobwise_version", row.knobwise_version);
  visit("os", row.os);
}

template <RowOf<ProblemRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("line", row.line);
  visit("op", row.op);
  visit("dtype", row.dtype);
  visit("layout", row.layout);
  visit("epilogue", row.epilogue);
  visit("rank", row.rank);
  visit("flops", row.flops);
  visit("compulsory_bytes", row.compulsory_bytes);
  visit("n", row.n);
  visit("c", row.c);
  visit("d", row.d);
  visit("h", row.h);
  visit("w", row.w);
  visit("k", row.k);
  visit("t", row.t);
  visit("r", row.r);
  visit("s", row.s);
  visit("groups", row.groups);
  visit("stride_d", row.stride_d);
  visit("stride_h", row.stride_h);
  visit("stride_w", row.stride_w);
  visit("pad_d", row.pad_d);
  visit("pad_h", row.pad_h);
  visit("pad_w", row.pad_w);
  visit("dilation_d", row.dilation_d);
  visit("dilation_h", row.dilation_h);
  visit("dilation_w", row.dilation_w);
}

template <RowOf<FamilyRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("backend", row.backend);
  visit("name", row.name);
  visit("source_hash", row.source_hash);
}

template <RowOf<SessionRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("uuid", row.uuid);
  visit("device", row.device);
  visit("environment", row.environment);
  visit("problem", row.problem);
  visit("strategy", row.strategy);
  visit("seed", row.seed);
  visit("max_trials", row.max_trials);
  visit("max_seconds", row.max_seconds);
  visit("accuracy", row.accuracy);
  visit("started", row.started);
  visit("finished", row.finished);
  visit("state", row.state);
  visit("command_line", row.command_line);
  visit("host", row.host);
}

template <RowOf<TimingRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("time_us", row.time_us);
  visit("time_kind", row.kind);
  visit("time_min_us", row.min_us);
  visit("time_mean_us", row.mean_us);
  visit("samples", row.samples);
}

template <RowOf<ErrorRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("distribution", row.distribution);
  visit("max_abs", row.max_abs);
  visit("mean_abs", row.mean_abs);
  visit("rms", row.rms);
  visit("rel_fro", row.rel_fro);
  visit("frac_outside", row.frac_outside);
  visit("checked", row.checked);
  visit("nan_count", row.nan_count);
}

template <RowOf<TrialRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("session", row.session);
  visit("device", row.device);
  visit("environment", row.environment);
  visit("problem", row.problem);
  visit("family", row.family);
  visit("configuration", row.configuration);
  visit("precision", row.precision);
  visit("status", row.status);
  visit("reason", row.reason);
  visit.timing(row.timing);
  visit("registers", row.resources.registers);
  visit("spill_bytes", row.resources.spill_bytes);
  visit("stack_bytes", row.resources.stack_bytes);
  visit("static_shared_bytes", row.resources.static_shared_bytes);
  visit("dynamic_shared_bytes", row.resources.dynamic_shared_bytes);
  visit("occupancy", row.resources.occupancy);
  visit("binary_bytes", row.resources.binary_bytes);
  visit("compile_seconds", row.compile_seconds);
  visit("verify_seconds", row.verify_seconds);
  visit("measure_seconds", row.measure_seconds);
  visit("clock_khz", row.clock_khz);
  visit("temperature_c", row.temperature_c);
  visit("started", row.started);
  visit("wall_seconds", row.wall_seconds);
  visit("session_order", row.session_order);
  visit("retimed", row.retimed);
  visit("extra", row.extra);
}

template <RowOf<BaselineRecord> Row, class Visitor>
void visit_columns(Row& row, Visitor& visit) {
  visit("device", row.device);
  visit("environment", row.environment);
  visit("problem", row.problem);
  visit("name", row.name);
  visit.timing(row.timing);
  visit("started", row.started);
}

template <class Record>
constexpr const char* kTable = nullptr;
template <>
inline constexpr const char* kTable<DeviceRecord> = "devices";
template <>
inline constexpr const char* kTable<EnvironmentRecord> = "environments";
template <>
inline constexpr const char* kTable<ProblemRecord> = "problems";
template <>
inline constexpr const char* kTable<FamilyRecord> = "families";
template <>
inline constexpr const char* kTable<SessionRecord> = "sessions";
template <>
inline constexpr const char* kTable<TrialRecord> = "trials";
template <>
inline constexpr const char* kTable<BaselineRecord> = "baselines";

/// Collects "a, b, c", and as many placeholders "?, ?, ?".
struct ColumnNames {
  std::string names, placeholders;

  template <class Value>
  void operator()(const char* name, const Value&) {
    const char* separator = names.empty() ? "" : ", ";
    names += separator + std::string(name);
    placeholders += separator + std::string("?");
  }
  template <class Timing>
  void timing(const Timing&) {
    const TimingRecord columns;
    visit_columns(columns, *this);
  }
};

/// The columns of a record's table.
template <class Record>
const ColumnNames& column_names() {
  static const auto& names = never_destroyed([] {
    ColumnNames collected;
    const Record record;
    visit_columns(record, collected);
    return collected;
  }());
  return names;
}

constexpr int kTimingColumns = 5;

struct ColumnBinder {
  Query& query;

  template <class Value>
  void operator()(const char*, const Value& value) {
    query.bind(value);
  }
  void timing(const TimingRecord& timing) { visit_columns(timing, *this); }
  void timing(const std::optional<TimingRecord>& optional) {
    if (optional) return timing(*optional);
    for (int column = 0; column < kTimingColumns; ++column) query.bind(std::nullopt);
  }
};

struct ColumnReader {
  Query& query;

  template <class Value>
  void operator()(const char*, Value& value) {
    query.read(value);
  }
  void timing(TimingRecord& timing) { visit_columns(timing, *this); }
  void timing(std::optional<TimingRecord>& optional) {
    optional.reset();
    if (query.next_is_null()) return query.skip(kTimingColumns);
    timing(optional.emplace());
  }
};

template <class Record>
void bind_columns(Query& query, const Record& record) {
  ColumnBinder binder{query};
  visit_columns(record, binder);
}

template <class Record>
Record read_columns(Query& query) {
  Record record;
  ColumnReader reader{query};
  visit_columns(record, reader);
  return record;
}

}  // namespace knobwise
