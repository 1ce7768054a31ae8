#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"
#include "tuner/cli/staleness.h"

namespace knobwise::cli {
namespace {

struct Layer {
  const Store& store;
  StoreCounts counts;
  std::vector<TrialRecord> best;  // within 1e-4, one for each problem and device
  StaleTrials stale;
  std::int64_t bytes = 0;
};

Layer look_into(const Store& store, const std::vector<DeviceInfo>& here) {
  Layer layer{store, store.counts(), {}, stale_trials(store, here), 0};
  for (const auto& [id, device] : store.devices()) {
    for (TrialRecord& trial : store.best_of_device(id, allclose_limits()))
      layer.best.push_back(std::move(trial));
  }
  layer.bytes = static_cast<std::int64_t>(std::filesystem::file_size(store.path()));
  return layer;
}

nlohmann::json to_json(const Layer& layer) {
  const StoreCounts& counts = layer.counts;
  nlohmann::json devices = nlohmann::json::array(), environments = nlohmann::json::array(),
                 best = nlohmann::json::array();
  for (const auto& [id, device] : layer.store.devices()) {
    devices.push_back(
        {{"backend", device.backend}, {"name", device.name}, {"architecture", device.architecture}});
  }
  for (const auto& [id, environment] : layer.store.environments()) {
    environments.push_back({{"driver", environment.driver_version},
                            {"toolkit", environment.toolkit_version},
                            {"compiler", environment.compiler},
                            {"knobwise", environment.knobwise_version},
                            {"os", environment.os}});
  }
  for (const TrialRecord& trial : layer.best) {
    best.push_back({{"problem", layer.store.problem(trial.problem).line},
                    {"device", layer.store.device(trial.device).name},
                    {"family", layer.store.family(trial.family).name},
                    {"time_us", trial.timing->time_us}});
  }
  return {{"path", layer.store.path().string()},
          {"schema", layer.store.version()},
          {"bytes", layer.bytes},
          {"devices", devices},
          {"environments", environments},
          {"problems", counts.problems},
          {"families", counts.families},
          {"sessions", counts.sessions},
          {"trials", counts.trials},
          {"trials_ok", counts.trials_ok},
          {"baselines", counts.baselines},
          {"machine_code", counts.codes},
          {"stale", {{"source", count(layer.stale.source)}, {"software", count(layer.stale.software)}}},
          {"best", best}};
}

void print(const Layer& layer) {
  const StoreCounts& counts = layer.counts;
  std::cout << fmt::format("{}: schema version {}, {}\n", layer.store.path().string(), layer.store.version(),
                           format_bytes(layer.bytes));
  std::cout << fmt::format("  {} problems, {} sessions, {} trials ({} ok, {} failed), {} baselines\n",
                           counts.problems, counts.sessions, counts.trials, counts.trials_ok,
                           counts.trials - counts.trials_ok, counts.baselines);
  std::cout << fmt::format(
      "  stale: {} trials of other kernel sources, {} of other drivers, toolkits or compilers\n",
      count(layer.stale.source), count(layer.stale.software));
  if (counts.codes > 0) std::cout << fmt::format("  machine code of {} trials\n", counts.codes);
  for (const auto& [id, device] : layer.store.devices())
    std::cout << fmt::format("  device: {} ({}), {}\n", device.name, device.architecture, device.backend);
  for (const auto& [id, environment] : layer.store.environments()) {
    std::cout << fmt::format(
        "  environment: {}{}{}, knobwise {}, {}\n",
        environment.driver_version.empty() ? "" : "driver " + environment.driver_version + ", ",
        environment.toolkit_version, environment.compiler, environment.knobwise_version, environment.os);
  }
  for (const auto& [id, problem] : layer.store.problems()) {
    std::cout << fmt::format("  problem: {}\n", problem.line);
    for (const TrialRecord& trial : layer.best) {
      if (trial.problem != id) continue;
      std::cout << fmt::format("    best: {}, {}, on {}\n", format_time(trial.timing->time_us),
                               layer.store.family(trial.family).name, layer.store.device(trial.device).name);
    }
  }
}

}  // namespace

int db_info(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  add_json(options);
  const auto variables =
      parse(arguments,
            {"db info [OPTIONS]",
             "Says of each database, in the order in which they are searched, what it holds: schema\n"
             "version, devices, environments, problems with the best time within 1e-4, trials, size,\n"
             "and how many trials are stale: measured with other sources of a kernel, or on a device\n"
             "of this machine under another driver, toolkit or compiler.",
             "  knobwise db info --db mine.db --db site.db\n"
             "  KNOBWISE_DB=mine.db:site.db knobwise db info --json\n"},
            options);
  if (!variables) return kSuccess;
  const LayeredStore stores = open_databases(database_paths(*variables));
  const std::vector<DeviceInfo> here = list_devices(nullptr);
  nlohmann::json document = nlohmann::json::array();
  std::size_t readable = 0;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    try {
      const Layer layer = look_into(stores.layer(i), here);
      variables->count("json") ? document.push_back(to_json(layer)) : print(layer);
      ++readable;
    } catch (const UserError& error) {  // damage that shows only now
      if (readable == 0 && i + 1 == stores.size()) throw;
      std::cerr << "note: " << error.what() << "; the other databases serve\n";
    }
  }
  if (variables->count("json")) print_json(document);
  return kSuccess;
}

}  // namespace knobwise::cli
