#include "tests/tuner/narrowed_family.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace knobwise::test {
namespace {

std::string narrowed(const KernelFamily& inner, const std::set<std::string>& free_knobs) {
  auto space = nlohmann::ordered_json::parse(inner.space_json());
  for (auto& knob : space.at("ConfigurationSpace").at("TuningParameters")) {
    if (free_knobs.contains(knob.at("Name").get<std::string>()) || !knob.contains("Default")) continue;
    const auto& value = knob.at("Default");
    if (value.is_string()) {
      const char* quote = knob.at("Type") == "string" ? "'" : "";
      knob["Values"] = fmt::format("[{}{}{}]", quote, value.get<std::string>(), quote);
    } else {
      knob["Values"] = nlohmann::ordered_json::array({value});
    }
  }
  return space.dump();
}

}  // namespace

NarrowedFamily::NarrowedFamily(const KernelFamily& inner, const std::set<std::string>& free_knobs,
                               std::string nonce)
    : RespacedFamily(inner, "narrowed", narrowed(inner, free_knobs)), nonce_(std::move(nonce)) {}

KernelInstance NarrowedFamily::instantiate(const Problem& problem, const Configuration& configuration,
                                           const DeviceInfo& device) const {
  KernelInstance instance = RespacedFamily::instantiate(problem, configuration, device);
  instance.source +=
      fmt::format("\n{} int kw_nonce_{} = 1;\n",
                  backend() == Backend::cuda ? "extern \"C\" __device__" : "static const", nonce_);
  return instance;
}

}  // namespace knobwise::test
