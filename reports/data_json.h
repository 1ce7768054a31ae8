// The data of a report in the form that the page reads.
#pragma once

#include <string>

#include "reports/report.h"
#include "reports/report_data.h"

namespace knobwise {

/// One JSON object. Devices, problems and the like are arrays of objects; the trials of each group are
/// columns (an array a field, null where a trial has no value; a field that no trial has is absent). Figures
/// carry six significant digits. Raw samples are given for the finalists only, thinned evenly where there are
/// very many.
std::string report_json(const ReportData& data, const ReportOptions& options);

}  // namespace knobwise
