// The HTML report: what a search found, as one file that opens without a network.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace knobwise {

/// What a report covers.
struct ReportOptions {
  /// Only the problem of this canonical line.
  std::optional<std::string> problem = std::nullopt;
  /// Only devices whose backend, vendor, name or architecture holds this text; case is ignored.
  std::optional<std::string> device = std::nullopt;
  /// Only trials and baselines from this UTC date or time on ("2026-01-31").
  std::optional<std::string> since = std::nullopt;
  std::string title = "knobwise report";
};

/// Writes one self-contained HTML page about everything the databases hold.
///
/// The databases stack: of a trial that several hold, the first one's is shown. They are opened read-only.
/// One that cannot be read is left out; what is wrong with each such is returned. The page appears under
/// `output` whole or not at all (a temporary file next to it, then a rename).
///
/// Thread safety: may run in several threads at once on different outputs.
/// Throws UserError when no database can be read, for a filter that matches nothing while there is something
/// to match, a malformed `since`, and an output that cannot be written.
std::vector<std::string> write_report(const std::vector<std::filesystem::path>& databases,
                                      const ReportOptions& options, const std::filesystem::path& output);

}  // namespace knobwise
