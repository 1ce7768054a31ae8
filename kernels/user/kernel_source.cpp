#include "kernels/user/kernel_source.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cctype>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

bool is_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// The file that a line includes by quotes; empty for any other line.
std::string included_file(const std::string& line) {
  std::istringstream stream(line);
  char hash = 0;
  std::string word;
  if (!(stream >> hash) || hash != '#' || !(stream >> word) || !word.starts_with("include")) return {};
  const std::size_t begin = line.find('"');
  const std::size_t end = begin == std::string::npos ? begin : line.find('"', begin + 1);
  return end == std::string::npos ? std::string() : line.substr(begin + 1, end - begin - 1);
}

void append_includes(const std::string& text, const fs::path& folder, std::set<fs::path>& seen,
                     std::string& all) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = included_file(line);
    if (name.empty()) continue;
    const fs::path path = (folder / name).lexically_normal();
    std::error_code error;
    if (!fs::is_regular_file(path, error) || !seen.insert(path).second) continue;
    const std::string content = read_source_file(path);
    all += content;
    append_includes(content, path.parent_path(), seen, all);
  }
}

}  // namespace

std::string read_source_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || fs::is_directory(path, error))
    throw UserError(fmt::format("{}: cannot be read; check that the file exists", path.string()));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string source_digest(const std::string& text, const fs::path& folder) {
  std::string all = text;
  std::set<fs::path> seen;
  append_includes(text, folder, seen, all);
  const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string with_c_linkage(std::string_view text, std::string_view function) {
  constexpr std::string_view kGlobal = "__global__";
  if (text.find("extern \"C\"") != std::string_view::npos) return std::string(text);
  std::string result(text);
  for (std::size_t at = result.find(function); at != std::string::npos;
       at = result.find(function, at + function.size())) {
    const std::size_t end = at + function.size();
    if ((at > 0 && is_identifier(result[at - 1])) ||
        result.find_first_not_of(" \t\r\n", end) == std::string::npos ||
        result[result.find_first_not_of(" \t\r\n", end)] != '(')
      continue;
    const std::size_t global = result.rfind(kGlobal, at);
    const std::size_t statement = result.find_last_of(";{}", at);
    if (global == std::string::npos || (statement != std::string::npos && statement > global)) continue;
    constexpr std::string_view kLinkage = "extern \"C\" ";
    result.insert(global, kLinkage);
    at += kLinkage.size();
  }
  return result;
}

}  // namespace knobwise
