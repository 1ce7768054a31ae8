// `devices`: what can be tuned for here, and what each device delivers at most.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "db/identifiers.h"
#include "db/store.h"
#include "kernels/ceilings.h"
#include "kernels/device.h"
#include "reports/ceilings.h"
#include "runtime/records.h"
#include "tuner/cli/command.h"
#include "tuner/evaluation/messages.h"

namespace knobwise::cli {
namespace {

void calibrate(Store& store, const std::vector<ChosenDevice>& devices) {
  for (const auto& [name, info] : devices) {
    std::cerr << fmt::format("measuring what {} delivers at most\n", name);
    const std::unique_ptr<Device> device = open_device(name);
    const MeasuredCeilings ceilings = measure_ceilings(*device);
    const std::int64_t id = store.intern_device(device_record(info));
    store.update_device_extra(id, with_ceilings(store.device(id).extra, ceilings, utc_now()));
  }
}

// As the first of the databases that knows the device has it, else as rated.
std::vector<Ceiling> known_ceilings(const DeviceInfo& info, const std::vector<std::filesystem::path>& paths) {
  for (const auto& path : paths) {
    if (!std::filesystem::exists(path)) continue;
    const Store store = Store::open(path, Store::Mode::read_only);
    if (const auto id = store.find_device(device_record(info))) return device_ceilings(store.device(*id));
  }
  return device_ceilings(device_record(info));
}

void print(const DeviceInfo& device, const std::vector<Ceiling>& ceilings) {
  const bool cpu = device.backend == Backend::cpu;
  const std::string compiler = compiler_version(device.backend);
  std::cout << fmt::format("{:<8}{} ({}), {} {}, {} memory\n",
                           cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal), device.name,
                           device.architecture, device.multiprocessors,
                           cpu ? "hardware threads" : "multiprocessors", format_bytes(device.memory_bytes));
  std::cout << fmt::format("        {}{}compiler: {}\n",
                           cpu ? "" : fmt::format("driver {}, ", device.driver_version),
                           cpu ? fmt::format("{}-byte vectors, ", device.vector_bytes) : "",
                           compiler.empty() ? "none" : compiler);
  for (const Ceiling& ceiling : ceilings) {
    const std::string rate = ceiling.resource == "memory"
                                 ? format_bytes(static_cast<std::int64_t>(ceiling.per_second)) + "/s"
                                 : format_rate(ceiling.per_second, 1e6);
    std::cout << fmt::format("        at most {:<8}{}{}\n", ceiling.resource, rate,
                             ceiling.measured ? "" : " (rated; --calibrate measures it)");
  }
}

nlohmann::json to_json(const DeviceInfo& device, const std::vector<Ceiling>& ceilings) {
  nlohmann::json entry = to_message(device);
  entry["backend"] = to_string(device.backend);
  entry["compiler_version"] = compiler_version(device.backend);
  entry["ceilings"] = nlohmann::json::object();
  for (const Ceiling& ceiling : ceilings) {
    entry["ceilings"][ceiling.resource] = {{"per_second", ceiling.per_second},
                                           {"measured", ceiling.measured}};
  }
  return entry;
}

}  // namespace

int devices(const std::vector<std::string>& arguments) {
  Options options;
  options.add_options()(
      "calibrate",
      "measure the copy bandwidth, the multiply-add rate and, on CUDA, the tensor cores' rates, and store "
      "them in the database: limits of the roofline");
  add_devices(options, "all");
  add_database(options);
  add_json(options);
  const auto variables =
      parse(arguments,
            {"devices [OPTIONS]",
             "Lists the devices that can be tuned for, what each backend lacks, and what each device\n"
             "delivers at most.",
             "  knobwise devices\n"
             "  knobwise devices --calibrate --db tuned.db\n"},
            options);
  if (!variables) return kSuccess;
  const std::vector<ChosenDevice> chosen = chosen_devices(*variables);
  const auto paths = database_paths(*variables);
  if (variables->count("calibrate")) {
    Store store = Store::open(paths.front(), Store::Mode::read_write);
    calibrate(store, chosen);
  }
  std::vector<std::string> notes;
  list_devices(&notes);
  nlohmann::json document = {{"devices", nlohmann::json::array()}, {"notes", notes}};
  for (const ChosenDevice& device : chosen) {
    const std::vector<Ceiling> ceilings = known_ceilings(device.info, paths);
    variables->count("json") ? document["devices"].push_back(to_json(device.info, ceilings))
                             : print(device.info, ceilings);
  }
  if (variables->count("json")) {
    print_json(document);
    return kSuccess;
  }
  for (const std::string& note : notes) std::cout << "note: " << note << "\n";
  return kSuccess;
}

}  // namespace knobwise::cli
