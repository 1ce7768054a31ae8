#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "include/knobwise/dispatcher.h"

namespace knobwise {

std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::exact:
      return "exact";
    case Provenance::nearest:
      return "nearest";
    case Provenance::family_default:
      return "family_default";
    case Provenance::vendor:
      return "vendor";
    case Provenance::reference:
      return "reference";
  }
  return "";
}

std::string_view to_string(TuningState state) {
  switch (state) {
    case TuningState::none:
      return "none";
    case TuningState::waiting:
      return "waiting";
    case TuningState::running:
      return "running";
    case TuningState::finished:
      return "finished";
    case TuningState::failed:
      return "failed";
  }
  return "";
}

ProvenanceSet ProvenanceSet::parse(std::string_view text) {
  if (text == "all") return all();
  ProvenanceSet set{};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    bool known = false;
    for (Provenance member : kProvenances) {
      if (word != to_string(member)) continue;
      set.bits_ |= ProvenanceSet{member}.bits_;
      known = true;
    }
    if (!known) {
      throw UserError(fmt::format(
          "'{}' is no step of the lookup; use exact, nearest, family_default, vendor, reference or all",
          word));
    }
    begin = end + 1;
  }
  return set;
}

std::string PlanDescription::to_string() const {
  std::string text = fmt::format("{} on {}: {} {} ({}", problem, device, family, configuration.to_json(),
                                 knobwise::to_string(provenance));
  if (stale) text += ", stale";
  if (!based_on.empty() && based_on != problem) text += fmt::format(", from '{}'", based_on);
  if (!device_match.empty() && based_on_device != device)
    text += fmt::format(", measured on {}: {}", based_on_device, device_match);
  if (stored_code) text += ", stored code";
  if (predicted_us) text += fmt::format(", {:.4g} us", *predicted_us);
  return text + ")";
}

std::string PlanDescription::to_json() const {
  nlohmann::ordered_json json;
  json["problem"] = problem;
  json["device"] = device;
  json["family"] = family;
  json["configuration"] = nlohmann::ordered_json::parse(configuration.to_json());
  json["provenance"] = knobwise::to_string(provenance);
  json["predicted_us"] =
      predicted_us ? nlohmann::ordered_json(*predicted_us) : nlohmann::ordered_json(nullptr);
  json["error"] = nullptr;
  if (error) {
    json["error"] = {{"max_abs", error->max_abs},
                     {"mean_abs", error->mean_abs},
                     {"rms", error->rms},
                     {"rel_fro", error->rel_fro},
                     {"frac_outside", error->frac_outside}};
  }
  json["database"] = database;
  json["based_on"] = based_on;
  json["based_on_device"] = based_on_device;
  json["device_match"] = device_match;
  json["stored_code"] = stored_code;
  json["workspace_bytes"] = workspace_bytes;
  json["packed_bytes"] = packed_bytes;
  json["stale"] = stale;
  json["notes"] = notes;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace knobwise
