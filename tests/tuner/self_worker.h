// For binaries that are their own workers: only so do the workers know families made for a test.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include "tuner/evaluation/worker_process.h"
#include "tuner/evaluation/workers.h"

namespace knobwise::test {

/// True in a process that a session started as a worker; its work is done then, and `status` is main()'s.
/// Families must be registered before.
inline bool served_as_worker(int argc, char** argv, int& status) {
  if (argc != 4 || std::string_view(argv[1]) != "worker") return false;
  become_worker(static_cast<pid_t>(std::atol(argv[3])));
  status = std::string_view(argv[2]) == "compile" ? run_compile_worker() : run_measure_worker();
  return true;
}

}  // namespace knobwise::test
