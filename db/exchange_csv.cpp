// CSV after RFC 4180: a header, then one trial a line with everything it refers to.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <istream>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "db/columns.h"
#include "db/exchange_formats.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr std::size_t kErrorColumns = 8;
constexpr const char* kDistributions[] = {"integers", "normal", "uniform"};

/// References become the columns of what they refer to.
bool is_reference(std::string_view column) {
  for (const char* reference : {"session", "device", "environment", "problem", "family"}) {
    if (column == reference) return true;
  }
  return false;
}

// --- Values as cells: an empty cell is an absent value; NaN is written as such.

std::string to_cell(const std::string& value) {
  return value;
}
std::string to_cell(std::int64_t value) {
  return fmt::format("{}", value);
}
std::string to_cell(std::uint64_t value) {
  return fmt::format("{}", value);
}
std::string to_cell(double value) {
  return fmt::format("{}", value);
}
std::string to_cell(TrialStatus value) {
  return std::string(to_string(value));
}
std::string to_cell(SessionState value) {
  return std::string(to_string(value));
}
std::string to_cell(TimeKind value) {
  return std::string(to_string(value));
}
std::string to_cell(const std::vector<float>& samples) {
  return fmt::format("{}", fmt::join(samples, " "));
}
template <class Value>
std::string to_cell(const std::optional<Value>& value) {
  return value ? to_cell(*value) : "";
}

template <class Number>
Number number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("'{}' is no number", text));
  return value;
}

void from_cell(const std::string& cell, std::string& value) {
  value = cell;
}
void from_cell(const std::string& cell, std::int64_t& value) {
  value = number_of<std::int64_t>(cell);
}
void from_cell(const std::string& cell, std::uint64_t& value) {
  value = number_of<std::uint64_t>(cell);
}
void from_cell(const std::string& cell, double& value) {
  value = number_of<double>(cell);
}
void from_cell(const std::string& cell, TrialStatus& value) {
  value = parse_trial_status(cell);
}
void from_cell(const std::string& cell, SessionState& value) {
  value = parse_session_state(cell);
}
void from_cell(const std::string& cell, TimeKind& value) {
  value = parse_time_kind(cell);
}
void from_cell(const std::string& cell, std::vector<float>& samples) {
  samples.clear();
  for (std::size_t start = 0; start < cell.size();) {
    const std::size_t end = std::min(cell.find(' ', start), cell.size());
    samples.push_back(number_of<float>(std::string_view(cell).substr(start, end - start)));
    start = end + 1;
  }
}
template <class Value>
void from_cell(const std::string& cell, std::optional<Value>& value) {
  value.reset();
  if (!cell.empty()) from_cell(cell, value.emplace());
}

// --- Records as cells, in the order of their columns without references.

struct CellWriter {
  std::vector<std::string>& cells;

  template <class Value>
  void operator()(const char* name, const Value& value) {
    if (!is_reference(name)) cells.push_back(to_cell(value));
  }
  void timing(const TimingRecord& timing) { visit_columns(timing, *this); }
  void timing(const std::optional<TimingRecord>& optional) {
    if (optional) return timing(*optional);
    cells.insert(cells.end(), kTimingColumns, "");
  }
};

struct CellReader {
  const std::vector<std::string>& header;
  const std::vector<std::string>& cells;
  std::size_t next = 0;

  template <class Value>
  void operator()(const char* name, Value& value) {
    if (is_reference(name)) return;
    try {
      from_cell(cells[next], value);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("column {}: {}", header[next], error.what()));
    }
    ++next;
  }
  void timing(TimingRecord& timing) { visit_columns(timing, *this); }
  /// Of a record that has none yet.
  void timing(std::optional<TimingRecord>& optional) {
    if (cells[next].empty()) {
      next += kTimingColumns;
      return;
    }
    TimingRecord read;
    timing(read);
    optional = std::move(read);
  }
};

template <class Visit>
void visit_row(TrialContext& context, TrialRecord& trial, const Visit& visit) {
  visit(context.device);
  visit(context.environment);
  visit(context.problem);
  visit(context.family);
  visit(context.session);
  visit(trial);
}

template <class Record>
void add_names(const std::string& prefix, std::vector<std::string>& cells) {
  std::istringstream names(column_names<Record>().names);
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    if (!is_reference(name)) cells.push_back(prefix + name);
  }
}

std::vector<std::string> header() {
  std::vector<std::string> cells;
  add_names<DeviceRecord>("device_", cells);
  add_names<EnvironmentRecord>("environment_", cells);
  add_names<ProblemRecord>("problem_", cells);
  add_names<FamilyRecord>("family_", cells);
  add_names<SessionRecord>("session_", cells);
  add_names<TrialRecord>("", cells);
  for (const char* distribution : kDistributions)
    add_names<ErrorRecord>(std::string(distribution) + "_", cells);
  return cells;
}

std::vector<std::string> cells_of(TrialContext& context, TrialRecord& trial) {
  std::vector<std::string> cells;
  CellWriter writer{cells};
  visit_row(context, trial, [&](const auto& record) { visit_columns(record, writer); });
  for (const char* distribution : kDistributions) {
    const auto error = std::find_if(trial.errors.begin(), trial.errors.end(),
                                    [&](const ErrorRecord& e) { return e.distribution == distribution; });
    if (error != trial.errors.end()) {
      visit_columns(*error, writer);
    } else {
      cells.insert(cells.end(), kErrorColumns, "");
    }
  }
  return cells;
}

void read_row(const std::vector<std::string>& header, const std::vector<std::string>& cells,
              TrialContext& context, TrialRecord& trial) {
  CellReader reader{header, cells};
  visit_row(context, trial, [&](auto& record) { visit_columns(record, reader); });
  for ([[maybe_unused]] const char* distribution : kDistributions) {
    if (cells[reader.next].empty()) {
      reader.next += kErrorColumns;
      continue;
    }
    visit_columns(trial.errors.emplace_back(), reader);
  }
}

// --- Text

void write_line(std::ostream& out, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) out << ',';
    if (cells[i].find_first_of(",\"\r\n") == std::string::npos) {
      out << cells[i];
      continue;
    }
    out << '"';
    for (const char c : cells[i]) {
      if (c == '"') out << '"';
      out << c;
    }
    out << '"';
  }
  out << "\r\n";
}

/// Splits text into rows of cells; knows where it is.
class Reader {
 public:
  explicit Reader(std::istream& in) : in_(in) {}

  /// The line that the last row began on.
  std::int64_t line() const { return row_line_; }

  /// None at the end. Throws std::invalid_argument for a quote that does not close or stands inside a cell.
  std::optional<std::vector<std::string>> next() {
    row_line_ = line_;
    std::vector<std::string> cells;
    if (in_.peek() == std::char_traits<char>::eof()) return std::nullopt;
    for (bool more = true; more;) more = read_cell(cells.emplace_back());
    return cells;
  }

 private:
  int get() {
    const int c = in_.get();
    if (c == '\n') ++line_;
    return c;
  }

  /// True when a comma ended the cell.
  bool read_cell(std::string& cell) {
    if (in_.peek() == '"') {
      get();
      read_quoted(cell);
    }
    const bool quoted = !cell.empty();
    for (int c = get();; c = get()) {
      if (c == ',') return true;
      if (c == '\r' && in_.peek() == '\n') continue;
      if (c == '\n' || c == std::char_traits<char>::eof()) return false;
      if (quoted || c == '"') throw std::invalid_argument("a quote within a cell");
      cell += static_cast<char>(c);
    }
  }

  void read_quoted(std::string& cell) {
    for (int c = get();; c = get()) {
      if (c == std::char_traits<char>::eof()) throw std::invalid_argument("a quote that does not close");
      if (c == '"') {
        if (in_.peek() != '"') return;
        get();
      }
      cell += static_cast<char>(c);
    }
  }

  std::istream& in_;
  std::int64_t line_ = 1, row_line_ = 1;
};

void check_header(const std::vector<std::string>& found, const std::vector<std::string>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i >= found.size() || found[i] != wanted[i])
      throw std::invalid_argument(
          fmt::format("column {} is '{}', not '{}', as `knobwise db export` writes it", i + 1,
                      i < found.size() ? found[i] : "", wanted[i]));
  }
  if (found.size() > wanted.size())
    throw std::invalid_argument(fmt::format("an unknown column '{}'", found[wanted.size()]));
}

}  // namespace

std::int64_t write_csv(const Store& store, const ExportOptions& options, std::ostream& out) {
  write_line(out, header());
  std::int64_t written = 0;
  for (const auto& [id, session] : exported_sessions(store, options)) {
    for (TrialRecord& trial : store.session_trials(id)) {
      TrialContext context{.device = store.device(trial.device),
                           .environment = store.environment(trial.environment),
                           .problem = store.problem(trial.problem),
                           .family = store.family(trial.family),
                           .session = session};
      write_line(out, cells_of(context, trial));
      ++written;
    }
  }
  return written;
}

void read_csv(Store& store, std::istream& in, const std::string& name) {
  const std::vector<std::string> names = header();
  Reader reader(in);
  const auto place = [&] { return fmt::format("{}:{}", name, reader.line()); };
  TrialSink sink(store);
  try {
    const auto first = reader.next();
    if (!first) throw std::invalid_argument("the file is empty");
    check_header(*first, names);
    while (const auto cells = reader.next()) {
      if (cells->size() != names.size())
        throw std::invalid_argument(fmt::format("{} cells, the header has {}", cells->size(), names.size()));
      TrialContext context;
      TrialRecord trial;
      read_row(names, *cells, context, trial);
      sink.add(context, std::move(trial), place());
    }
    sink.flush();
  } catch (const std::invalid_argument& error) {
    throw UserError(fmt::format("{}: {}", place(), error.what()));
  }
}

}  // namespace knobwise
