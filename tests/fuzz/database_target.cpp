#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "db/salvage.h"
#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/fuzz/targets.h"

namespace knobwise::fuzz {
namespace {

namespace fs = std::filesystem;

void read_all(const fs::path& path) {
  try {
    const Store store = Store::open(path, Store::Mode::read_only);
    store.check();
    for (const auto& [problem, record] : store.problems()) {
      for (const auto& [device, match] : store.devices()) {
        store.best(problem, device, allclose_limits());
        store.baselines(problem, device);
      }
    }
    for (const auto& [id, session] : store.sessions()) {
      for (const TrialRecord& trial : store.session_trials(id)) store.code(trial.id);
    }
  } catch (const UserError&) {
  }
}

void save_what_can_be_read(const fs::path& path, const fs::path& out) {
  try {
    salvage(path, out);
    fs::remove(out);
  } catch (const UserError&) {
  }
}

}  // namespace

void database(std::string_view file) {
  const fs::path path = fs::temp_directory_path() / ("knobwise-fuzz-" + std::to_string(getpid()) + ".db");
  std::ofstream(path, std::ios::binary) << file;
  read_all(path);
  save_what_can_be_read(path, path.string() + ".salvaged");
  fs::remove(path);
}

}  // namespace knobwise::fuzz
