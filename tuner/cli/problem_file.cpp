#include "tuner/cli/problem_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "search_spaces/user_error.h"
#include "tuner/cli/place.h"

namespace knobwise::cli {

int read_problems(const std::string& path, std::vector<ProblemLine>& lines) {
  std::ifstream file(path);
  if (!file) throw UserError(fmt::format("{}: cannot be read; give a file with one problem a line", path));
  int number = 0, bad = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.resize(std::min(line.find('#'), line.size()));
    line.resize(line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    try {
      lines.push_back({number, Problem::parse(line)});
    } catch (const UserError& error) {
      ++bad;
      std::cerr << fmt::format("{}:{}: {}", path, number, format_error(error));
    }
  }
  if (file.bad())
    throw UserError(fmt::format("{}: cannot be read; give a file with one problem a line", path));
  return bad;
}

}  // namespace knobwise::cli
