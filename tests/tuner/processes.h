// Which processes a test has started, and which outlived it.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace knobwise::test {

// Makes processes whose parent has died children of this one, so that descendants() finds them.
inline void adopt_orphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

// Children of this process, and theirs.
inline std::set<pid_t> descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    int parent = 0;
    char state = 0;
    if (std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &parent) == 2 && state != 'Z') {
      children.emplace(parent, std::atoi(line.c_str()));
    }
  }
  std::set<pid_t> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (auto [child, end] = children.equal_range(parent); child != end; ++child) {
      if (found.insert(child->second).second) open.push_back(child->second);
    }
  }
  return found;
}

// What is left of this process's descendants after a moment in which they may end; orphans count, once
// adopt_orphans() was called.
inline std::set<pid_t> left_behind() {
  std::set<pid_t> left = descendants(getpid());
  for (int tries = 0; tries < 200 && !left.empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    left = descendants(getpid());
  }
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  return left;
}

}  // namespace knobwise::test
