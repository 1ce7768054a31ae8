#include "reports/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "reports/data_json.h"
#include "reports/page.h"
#include "reports/report_data.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

// All or nothing: readers of the old file never see half of the new one.
void write_whole(const std::filesystem::path& output, const std::string& content) {
  std::filesystem::path temporary = output;
  temporary += fmt::format(".{}.part", getpid());
  std::error_code error;
  {
    std::ofstream stream(temporary, std::ios::binary);
    stream << content;
    stream.flush();
    if (!stream) {
      std::filesystem::remove(temporary, error);
      throw UserError(fmt::format("{}: cannot be written; choose another place with -o", output.string()));
    }
  }
  std::filesystem::rename(temporary, output, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(temporary, error);
    throw UserError(
        fmt::format("{}: cannot be written ({}); choose another place with -o", output.string(), reason));
  }
}

}  // namespace

void write_report(const std::vector<std::filesystem::path>& databases, const ReportOptions& options,
                  const std::filesystem::path& output) {
  const ReportData data = read_report_data(databases, options);
  write_whole(output, fill_page(options.title, report_json(data, options)));
}

}  // namespace knobwise
