#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "search_spaces/user_error.h"
#include "tuner/cli/command.h"

namespace knobwise::cli {
namespace {

nlohmann::json info_json(const Store& store) {
  const StoreCounts counts = store.counts();
  nlohmann::json devices = nlohmann::json::array();
  for (const auto& [id, device] : store.devices()) {
    devices.push_back(
        {{"backend", device.backend}, {"name", device.name}, {"architecture", device.architecture}});
  }
  return {{"path", store.path().string()},
          {"schema", store.version()},
          {"bytes", std::filesystem::file_size(store.path())},
          {"devices", devices},
          {"problems", counts.problems},
          {"families", counts.families},
          {"sessions", counts.sessions},
          {"trials", counts.trials},
          {"trials_ok", counts.trials_ok},
          {"baselines", counts.baselines},
          {"environments", counts.environments}};
}

void print_info(const Store& store) {
  const StoreCounts counts = store.counts();
  std::cout << fmt::format("{}: schema version {}, {}\n", store.path().string(), store.version(),
                           format_bytes(static_cast<std::int64_t>(std::filesystem::file_size(store.path()))));
  std::cout << fmt::format("  {} problems, {} sessions, {} trials ({} ok, {} failed), {} baselines\n",
                           counts.problems, counts.sessions, counts.trials, counts.trials_ok,
                           counts.trials - counts.trials_ok, counts.baselines);
  for (const auto& [id, device] : store.devices()) {
    std::cout << fmt::format("  device: {} ({}), {}\n", device.name, device.architecture, device.backend);
  }
  for (const auto& [id, problem] : store.problems())
    std::cout << fmt::format("  problem: {}\n", problem.line);
}

}  // namespace

int db(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_json(options);
  const auto variables = parse(
      arguments,
      {"db info [--db FILE]...", "Says what each database holds.", "  knobwise db info --db tuned.db\n"},
      options, "action");
  if (!variables) return kSuccess;
  const std::string action = (*variables)["action"].as<std::vector<std::string>>().front();
  if (action != "info")
    throw UserError(fmt::format("db: there is no action '{}'; use: knobwise db info", action));
  const auto paths = database_paths(*variables);
  const LayeredStore stores = open_databases(paths);
  nlohmann::json document = nlohmann::json::array();
  for (std::size_t i = 0; i < stores.size(); ++i) {
    if (variables->count("json")) {
      document.push_back(info_json(stores.layer(i)));
    } else {
      print_info(stores.layer(i));
    }
  }
  if (variables->count("json")) std::cout << document.dump(2) << "\n";
  return kSuccess;
}

}  // namespace knobwise::cli
