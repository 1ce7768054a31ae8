// Everything a report shows, read from one or several databases, before it becomes text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "db/records.h"
#include "reports/report.h"

namespace knobwise {

/// All trials of one problem on one device, in order of the time they were started.
struct ReportGroup {
  std::size_t problem = 0;
  std::size_t device = 0;
  std::vector<TrialRecord> trials;
};

/// The ids inside the records are indices into the vectors here, whatever database a record came from.
struct ReportData {
  std::vector<std::string> left_out;  ///< What is wrong with each database that cannot be read.
  std::vector<std::string> sources;   ///< The databases as given.
  std::vector<DeviceRecord> devices;
  std::vector<EnvironmentRecord> environments;
  std::vector<ProblemRecord> problems;
  std::vector<FamilyRecord> families;
  std::vector<SessionRecord> sessions;
  std::vector<BaselineRecord> baselines;
  std::vector<ReportGroup> groups;  ///< In order of problem, then device; none is empty.
};

/// Reads the databases. Equal devices, environments, problems, families and sessions of several databases
/// become one; of equal trials and baselines the first database's counts. Throws UserError as write_report()
/// does.
ReportData read_report_data(const std::vector<std::filesystem::path>& databases,
                            const ReportOptions& options);

}  // namespace knobwise
