#include "db/whole_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDatabase("SQLite format 3\0", 16);

void require_replaceable(const fs::path& path) {
  if (!fs::exists(path)) return;
  if (!fs::is_regular_file(path))
    throw UserError(fmt::format("{}: is not an ordinary file; choose another place", path.string()));
  std::array<char, kDatabase.size()> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  if (std::string_view(begin.data(), begin.size()) == kDatabase)
    throw UserError(
        fmt::format("{}: is a database and would be replaced; choose another place", path.string()));
}

}  // namespace

void write_whole_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  require_replaceable(path);
  fs::path temporary = path;
  temporary += fmt::format(".{}.part", getpid());
  std::error_code error;
  try {
    std::ofstream stream(temporary, std::ios::binary);
    write(stream);
    stream.close();
    if (stream) fs::rename(temporary, path, error);
    if (!stream || error) {
      throw UserError(
          fmt::format("{}: cannot be written: check its folder and the free space, or choose another place",
                      path.string()));
    }
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
}

}  // namespace knobwise
