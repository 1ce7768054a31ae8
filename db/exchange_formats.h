// The formats behind db/exchange.h. Private to db/.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "db/exchange.h"
#include "db/records.h"

namespace knobwise {

/// A trial with everything it refers to, as values: what the formats of trials exchange.
struct TrialContext {
  DeviceRecord device;
  EnvironmentRecord environment;
  ProblemRecord problem;
  FamilyRecord family;
  SessionRecord session;
};

/// Takes trials from a reader; equal contexts are stored once.
class TrialSink {
 public:
  explicit TrialSink(Store& store) : store_(store) {}
  /// `place` is for messages: "result 7", "line 12".
  void add(const TrialContext& context, TrialRecord trial, std::string place);
  /// Call at the end. This and add() throw UserError, with the place, for a record that breaks a rule of the
  /// schema.
  void flush();

 private:
  void find_the_bad_one();

  Store& store_;
  std::vector<TrialRecord> pending_;
  std::vector<std::string> places_;
};

/// Sessions with trials of the problem, or all; for the writers.
std::vector<Stored<SessionRecord>> exported_sessions(const Store& store, const ExportOptions& options);

std::int64_t write_t4(const Store& store, const ExportOptions& options, std::ostream& out);
void read_t4(Store& store, std::istream& in, const std::string& name);

std::int64_t write_csv(const Store& store, const ExportOptions& options, std::ostream& out);
void read_csv(Store& store, std::istream& in, const std::string& name);

/// Of the database file as it is.
void write_sql(const std::filesystem::path& database, std::ostream& out);
/// Runs the statements in a new database at `path`: they can do nothing but build it.
void run_sql(const std::filesystem::path& path, std::istream& in, const std::string& name);

}  // namespace knobwise
