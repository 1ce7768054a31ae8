#include "reports/report.h"

#include "db/whole_file.h"
#include "reports/data_json.h"
#include "reports/page.h"
#include "reports/report_data.h"

namespace knobwise {

std::vector<std::string> write_report(const std::vector<std::filesystem::path>& databases,
                                      const ReportOptions& options, const std::filesystem::path& output) {
  const ReportData data = read_report_data(databases, options);
  const std::string page = fill_page(options.title, report_json(data, options));
  write_whole_file(output, [&](std::ostream& out) { out << page; });
  return data.left_out;
}

}  // namespace knobwise
