// Runs programs under test and keeps what they say.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tuner/temporary_folder.h"

namespace knobwise::test {

struct CommandResult {
  int status = -1;
  std::string out, err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

/// Starts `program arguments...` with its output in files of `folder`; the process id.
inline pid_t start_program(const std::string& program, const std::vector<std::string>& arguments,
                           const TemporaryFolder& folder) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (!std::freopen((folder / "out").c_str(), "w", stdout) ||
      !std::freopen((folder / "err").c_str(), "w", stderr))
    _exit(126);
  execvp(argv[0], argv.data());
  _exit(127);
}

inline pid_t start_knobwise(const std::vector<std::string>& arguments, const TemporaryFolder& folder) {
  return start_program(KNOBWISE_EXECUTABLE, arguments, folder);
}

inline CommandResult finish(pid_t pid, const TemporaryFolder& folder) {
  CommandResult result;
  int status = 0;
  waitpid(pid, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(folder / "out");
  result.err = read_file(folder / "err");
  return result;
}

inline CommandResult knobwise(const std::vector<std::string>& arguments, const TemporaryFolder& folder) {
  return finish(start_knobwise(arguments, folder), folder);
}

}  // namespace knobwise::test
