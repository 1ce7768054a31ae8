#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/device.h"
#include "tuner/cli/command.h"
#include "tuner/evaluation/messages.h"

namespace knobwise::cli {

int devices(const std::vector<std::string>& arguments) {
  Options options;
  add_json(options);
  const auto variables =
      parse(arguments,
            {"devices [--json]", "Lists the devices that can be tuned for, and what each backend lacks.",
             "  knobwise devices\n"},
            options);
  if (!variables) return kSuccess;
  std::vector<std::string> notes;
  const std::vector<DeviceInfo> all = list_devices(&notes);
  if (variables->count("json")) {
    nlohmann::json document = {{"devices", nlohmann::json::array()}, {"notes", notes}};
    for (const DeviceInfo& device : all) {
      nlohmann::json entry = to_message(device);
      entry["backend"] = to_string(device.backend);
      document["devices"].push_back(std::move(entry));
    }
    std::cout << document.dump(2) << "\n";
    return kSuccess;
  }
  for (const DeviceInfo& device : all) {
    const bool cpu = device.backend == Backend::cpu;
    std::cout << fmt::format("{:<8}{} ({}), {} {}, {} memory\n",
                             cpu ? "cpu" : fmt::format("cuda:{}", device.ordinal), device.name,
                             device.architecture, device.multiprocessors,
                             cpu ? "hardware threads" : "multiprocessors", format_bytes(device.memory_bytes));
    std::cout << fmt::format("        {}{}compiler: {}\n",
                             cpu ? "" : fmt::format("driver {}, ", device.driver_version),
                             cpu ? fmt::format("{}-byte vectors, ", device.vector_bytes) : "",
                             device.compiler_version.empty() ? "none" : device.compiler_version);
  }
  for (const std::string& note : notes) std::cout << "note: " << note << "\n";
  return kSuccess;
}

}  // namespace knobwise::cli
