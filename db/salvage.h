// Getting out of a damaged file what can be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace knobwise {

struct SalvageResult {
  std::int64_t devices = 0, environments = 0, problems = 0, families = 0, sessions = 0;
  std::int64_t trials = 0, baselines = 0, codes = 0;
  std::int64_t errors = 0;           ///< Measured errors, of trials and baselines.
  std::int64_t refused = 0;          ///< Rows that were read and break a rule of the schema.
  std::int64_t orphans = 0;          ///< Rows left out because what they refer to is lost.
  std::vector<std::string> damaged;  ///< Tables of which parts cannot be read.
  bool schema_rebuilt = false;       ///< The file's own list of tables was of no use.
};

/// Writes every row of `damaged` that can still be read to a new database `out`. The damaged file is only
/// read. A trial whose session is lost gets one that says so. Throws UserError when nothing can be read, when
/// `out` exists, or when there is no room for `out` and a copy of the damaged file beside it.
SalvageResult salvage(const std::filesystem::path& damaged, const std::filesystem::path& out);

}  // namespace knobwise
