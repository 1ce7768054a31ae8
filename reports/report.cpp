#include "reports/report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
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

// A report replaces an older report, but no database, however it came to be named.
void require_replaceable(const std::filesystem::path& output) {
  if (!std::filesystem::exists(output)) return;
  if (!std::filesystem::is_regular_file(output))
    throw UserError(
        fmt::format("{}: is not an ordinary file; choose another place with -o", output.string()));
  constexpr std::string_view kDatabase("SQLite format 3\0", 16);
  std::array<char, kDatabase.size()> begin{};
  std::ifstream(output, std::ios::binary).read(begin.data(), begin.size());
  if (std::string_view(begin.data(), begin.size()) == kDatabase) {
    throw UserError(fmt::format(
        "{}: is a database, which the report would replace; choose another place with -o", output.string()));
  }
}

}  // namespace

void write_report(const std::vector<std::filesystem::path>& databases, const ReportOptions& options,
                  const std::filesystem::path& output) {
  require_replaceable(output);
  const ReportData data = read_report_data(databases, options);
  write_whole(output, fill_page(options.title, report_json(data, options)));
}

}  // namespace knobwise
