#include "runtime/packed_description.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace knobwise::runtime_detail {
namespace {

using nlohmann::json;

// A known text is its number.
json to_json(const std::string& text, const KnownTexts& known) {
  const auto found = std::ranges::find(known, text);
  if (found == known.end()) return text;
  return found - known.begin();
}

std::string to_text(const json& text, const KnownTexts& known) {
  return text.is_string() ? text.get<std::string>() : known.at(text.get<std::size_t>());
}

json to_json(const std::optional<ErrorMetrics>& error) {
  if (!error) return nullptr;
  return {error->max_abs,      error->mean_abs, error->rms, error->rel_fro,
          error->frac_outside, error->checked,  error->nans};
}

std::optional<ErrorMetrics> to_error(const json& array) {
  if (array.is_null()) return std::nullopt;
  return ErrorMetrics{array.at(0), array.at(1), array.at(2), array.at(3),
                      array.at(4), array.at(5), array.at(6)};
}

bool in_order_of(const SearchSpace& space, const Configuration& configuration) {
  return std::ranges::equal(
      configuration.knobs(), space.knobs(), {}, [](const auto& knob) { return knob.first; },
      &KnobDeclaration::name);
}

// The values alone where the family's space tells the names.
json to_json(const Configuration& configuration, const KernelFamily& family) {
  if (!in_order_of(declared_space(family), configuration)) return configuration.to_json();
  json values = json::array();
  for (const auto& [name, value] : configuration.knobs())
    std::visit([&values](const auto& plain) { values.push_back(plain); }, value);
  return values;
}

Value to_value(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

Configuration to_configuration(const json& values, const KernelFamily& family) {
  if (values.is_string()) return Configuration::from_json(values.get<std::string>());
  std::vector<std::pair<std::string, Value>> knobs;
  for (const json& value : values)
    knobs.emplace_back(declared_space(family).knobs().at(knobs.size()).name, to_value(value));
  return Configuration(std::move(knobs));
}

}  // namespace

PackedDescription::PackedDescription(const PlanDescription& d, const KernelFamily& family,
                                     const KnownTexts& known) {
  const json fields = {d.family,
                       to_json(d.configuration, family),
                       d.predicted_us ? json(*d.predicted_us) : json(nullptr),
                       to_json(d.error),
                       to_json(d.database, known),
                       to_json(d.based_on, known),
                       to_json(d.based_on_device, known),
                       to_json(d.device_match, known),
                       d.stored_code,
                       d.stale,
                       d.notes};
  bytes_ = json::to_cbor(fields);
  bytes_.shrink_to_fit();
}

PlanDescription PackedDescription::unpack(Backend backend, const KnownTexts& known) const {
  const json fields = json::from_cbor(bytes_);
  std::size_t next = 0;
  const auto field = [&]() -> const json& { return fields.at(next++); };
  PlanDescription description;
  description.problem = known.at(0);
  description.device = known.at(1);
  description.family = field().get<std::string>();
  // Families live as long as the program.
  description.configuration = to_configuration(field(), *find_family(backend, description.family));
  if (const json& predicted = field(); !predicted.is_null())
    description.predicted_us = predicted.get<double>();
  description.error = to_error(field());
  description.database = to_text(field(), known);
  description.based_on = to_text(field(), known);
  description.based_on_device = to_text(field(), known);
  description.device_match = to_text(field(), known);
  description.stored_code = field().get<bool>();
  description.stale = field().get<bool>();
  description.notes = field().get<std::vector<std::string>>();
  return description;
}

}  // namespace knobwise::runtime_detail
