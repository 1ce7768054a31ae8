// The executable under test lies beside the tests.
#pragma once

#include <filesystem>
#include <string>

namespace knobwise::test {

inline const char* knobwise_executable() {
  static const std::string path =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "knobwise").string();
  return path.c_str();
}

}  // namespace knobwise::test

#define KNOBWISE_EXECUTABLE ::knobwise::test::knobwise_executable()
