#include "search_spaces/value.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

std::string real_to_string(double value) {
  std::string text = fmt::format("{}", value);
  // A point or an exponent keeps the value a real when it is read back.
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

Value value_from_json(const std::string& name, const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
    throw UserError(
        fmt::format("configuration: knob `{}` has {}, which does not fit in 64 bits", name, json.dump()));
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  throw UserError(fmt::format("configuration: knob `{}` has {}, expected a number, a text, true or false",
                              name, json.dump()));
}

}  // namespace

std::string to_string(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const double* real = std::get_if<double>(&value)) return real_to_string(*real);
  return std::get<std::string>(value);
}

const Value* Configuration::find(std::string_view name) const {
  for (const auto& [knob, value] : knobs_) {
    if (knob == name) return &value;
  }
  return nullptr;
}

std::int64_t Configuration::integer(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw std::out_of_range(fmt::format("no knob `{}` in {}", name, to_json()));
  if (const bool* truth = std::get_if<bool>(value)) return *truth ? 1 : 0;
  if (const std::int64_t* integer = std::get_if<std::int64_t>(value)) return *integer;
  if (const double* real = std::get_if<double>(value)) {
    if (std::trunc(*real) == *real && std::abs(*real) < 0x1p63) return static_cast<std::int64_t>(*real);
  }
  throw std::out_of_range(fmt::format("knob `{}` is no integer in {}", name, to_json()));
}

const std::string& Configuration::text(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw std::out_of_range(fmt::format("no knob `{}` in {}", name, to_json()));
  if (const std::string* text = std::get_if<std::string>(value)) return *text;
  throw std::out_of_range(fmt::format("knob `{}` is no text in {}", name, to_json()));
}

std::string Configuration::to_json() const {
  std::string result = "{";
  for (const auto& [name, value] : knobs_) {
    if (result.size() > 1) result += ',';
    result += nlohmann::json(name).dump() + ':';
    const std::string* text = std::get_if<std::string>(&value);
    result += text != nullptr ? nlohmann::json(*text).dump() : to_string(value);
  }
  return result + '}';
}

Configuration Configuration::from_json(std::string_view json) {
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
  if (!parsed.is_object()) {
    throw UserError(fmt::format("configuration `{}` is not a JSON object such as {{\"tile_w\":16}}", json));
  }
  std::vector<std::pair<std::string, Value>> knobs;
  for (const auto& [name, value] : parsed.items()) knobs.emplace_back(name, value_from_json(name, value));
  return Configuration(std::move(knobs));
}

}  // namespace knobwise
