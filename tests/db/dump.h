// The content of a database as text, to compare files.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace knobwise::testing {

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Every row of a query on a line, columns joined by bars.
inline std::vector<std::string> lines(const std::filesystem::path& path, const std::string& sql) {
  SQLite::Database database(path.string());
  SQLite::Statement query(database, sql);
  std::vector<std::string> all;
  while (query.executeStep()) {
    std::string line;
    for (int i = 0; i < query.getColumnCount(); ++i) {
      line += (i > 0 ? "|" : "");
      line += query.isColumnNull(i) ? "NULL" : query.getColumn(i).getString();
    }
    all.push_back(line);
  }
  return all;
}

inline std::string column(const std::filesystem::path& path, const std::string& sql) {
  std::string text;
  for (const std::string& line : lines(path, sql)) text += line + "\n";
  return text;
}

/// Everything but ids, as sorted lines: equal for databases that say the same. Trials without machine code,
/// which schema 1 lacks; see dump_codes().
inline std::string dump(const std::filesystem::path& path) {
  const std::string device =
      "d.backend||'/'||d.name||'/'||d.architecture||'/'||d.multiprocessors||'/'||d.memory_gib||'/"
      "'||d.l2_bytes";
  const std::string environment =
      "e.driver_version||'/'||e.toolkit_version||'/'||e.compiler||'/'||e.knobwise_version";
  const std::string errors_of =
      "(SELECT group_concat(line) FROM (SELECT distribution||':'||"
      "coalesce(quote(max_abs)||' '||quote(mean_abs)||' '||quote(rms)||' '||quote(rel_fro)||' '||"
      "quote(frac_outside)||' '||checked||' '||nan_count, '') AS line FROM ";
  const std::string joins =
      " JOIN devices AS d ON d.id = x.device JOIN environments AS e ON e.id = x.environment JOIN problems AS "
      "p ON p.id "
      "= x.problem";
  const std::string queries[] = {
      "SELECT backend, vendor, name, architecture, multiprocessors, memory_bytes, clock_khz, "
      "memory_clock_khz, l2_bytes, "
      "shared_memory_per_block, extra FROM devices",
      "SELECT driver_version, toolkit_version, compiler, knobwise_version, os FROM environments",
      "SELECT line, op, dtype, layout, epilogue, rank, flops, compulsory_bytes, n, c, d, h, w, k, t, r, s, "
      "groups, "
      "stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, dilation_d, dilation_h, dilation_w FROM problems",
      "SELECT backend, name, source_hash FROM families",
      "SELECT uuid, " + device + ", " + environment +
          ", p.line, strategy, seed, max_trials, quote(max_seconds), accuracy, started, finished, state, "
          "command_line, host "
          "FROM sessions AS x" +
          joins,
      "SELECT s.uuid, " + device + ", " + environment +
          ", p.line, f.backend, f.name, f.source_hash, configuration, precision, status, reason, "
          "quote(time_us), "
          "time_kind, quote(time_min_us), quote(time_mean_us), hex(samples), quote(compile_seconds), "
          "quote(verify_seconds), quote(measure_seconds), registers, spill_bytes, stack_bytes, "
          "static_shared_bytes, "
          "dynamic_shared_bytes, quote(occupancy), binary_bytes, x.clock_khz, quote(temperature_c), "
          "x.started, "
          "quote(wall_seconds), session_order, retimed, x.extra, " +
          errors_of + "trial_errors WHERE trial = x.id ORDER BY distribution)) FROM trials AS x" + joins +
          " JOIN families AS f ON f.id = x.family JOIN sessions AS s ON s.id = x.session",
      "SELECT " + device + ", " + environment +
          ", p.line, x.name, quote(time_us), time_kind, quote(time_min_us), quote(time_mean_us), "
          "hex(samples), started, " +
          errors_of + "baseline_errors WHERE baseline = x.id ORDER BY distribution)) FROM baselines AS x" +
          joins};
  std::string text;
  for (const std::string& query : queries) {
    std::vector<std::string> rows = lines(path, query);
    std::sort(rows.begin(), rows.end());
    for (const std::string& row : rows) text += row + "\n";
    text += "--\n";
  }
  return text;
}

/// Which code each trial has, as sorted lines.
inline std::vector<std::string> dump_codes(const std::filesystem::path& path) {
  std::vector<std::string> rows =
      lines(path,
            "SELECT s.uuid, x.configuration, c.hash, c.image_bytes, hex(c.image) FROM trial_code AS t JOIN "
            "trials AS x ON "
            "x.id = t.trial JOIN sessions AS s ON s.id = x.session JOIN machine_code AS c ON c.id = t.code");
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace knobwise::testing
