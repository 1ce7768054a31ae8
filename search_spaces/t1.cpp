// Reads T1 JSON.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "search_spaces/never_destroyed.h"
#include "search_spaces/space.h"
#include "search_spaces/t1_json.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;
using Type = KnobDeclaration::Type;

Type parse_type(const json& parameter, const std::string& place) {
  const std::string name = plain_word(t1_text(parameter, "Type"));
  if (name.empty()) return Type::any;
  if (name.starts_with("int") || name.starts_with("uint")) return Type::integer;
  if (name == "float" || name == "double" || name == "real") return Type::real;
  if (name == "bool" || name == "boolean") return Type::boolean;
  if (name == "string" || name == "str") return Type::text;
  t1_error(place, fmt::format("unknown Type `{}`; use int, uint, float, bool or string",
                              t1_text(parameter, "Type")));
}

KnobDeclaration parse_knob(const json& parameter, const std::string& source, std::size_t number) {
  KnobDeclaration knob;
  knob.name = t1_text(parameter, "Name");
  if (knob.name.empty())
    t1_error(fmt::format("{}: TuningParameters, number {}", source, number), "it has no Name");
  const std::string place = fmt::format("{}: knob `{}`", source, knob.name);
  knob.type = parse_type(parameter, place);
  const json* values = t1_member(parameter, "Values");
  if (values == nullptr) t1_error(place, "it has no Values");
  if (values->is_array()) {
    const bool quoted = knob.type == Type::text || knob.type == Type::any;
    for (const json& value : *values) knob.values.push_back(t1_scalar(value, quoted, place + ": Values"));
  } else {
    knob.values.push_back(t1_scalar(*values, false, place + ": Values"));
  }
  const json* default_value = t1_member(parameter, "Default");
  if (default_value != nullptr && default_value->is_array() && default_value->size() == 1)
    default_value = &default_value->front();
  if (default_value != nullptr) {
    const bool quoted = knob.type == Type::text || (knob.type == Type::any && default_value->is_string());
    knob.default_value = t1_scalar(*default_value, quoted, place + ": Default");
  }
  return knob;
}

Constraint parse_constraint(const json& condition, const std::string& source, std::size_t number) {
  const std::string place = fmt::format("{}: condition {}", source, number);
  const std::string text =
      condition.is_string() ? condition.get<std::string>() : t1_text(condition, "Expression");
  if (text.empty()) t1_error(place, "it has no Expression");
  return {t1_expression(text, place), t1_text(condition, "Reason")};
}

const json& array_member(const json& parent, std::string_view key, const std::string& place) {
  static const auto& kNothing = never_destroyed(json(json::array()));
  const json* found = t1_member(parent, key);
  if (found == nullptr) return kNothing;
  if (!found->is_array()) t1_error(place, fmt::format("{} is not a list", key));
  return *found;
}

}  // namespace

SearchSpace SearchSpace::parse(std::string_view text, const std::string& source) {
  const json document = parse_t1_json(text, source);
  const json* space = t1_member(document, "ConfigurationSpace");
  if (space == nullptr) t1_error(source, "it is no T1 search space: there is no ConfigurationSpace");
  std::vector<KnobDeclaration> knobs;
  for (const json& parameter : array_member(*space, "TuningParameters", source)) {
    knobs.push_back(parse_knob(parameter, source, knobs.size() + 1));
  }
  std::vector<Constraint> constraints;
  for (const json& condition : array_member(*space, "Conditions", source)) {
    constraints.push_back(parse_constraint(condition, source, constraints.size() + 1));
  }
  SearchSpace result(source, std::move(knobs), std::move(constraints));
  const json* general = t1_member(document, "General");
  const json* kernel = t1_member(document, "KernelSpecification");
  std::string name = general != nullptr ? t1_text(*general, "BenchmarkName") : "";
  if (name.empty() && kernel != nullptr) name = t1_text(*kernel, "KernelName");
  if (!name.empty()) result.name_ = name;
  if (kernel != nullptr) result.kernel_specification_ = std::make_shared<const json>(*kernel);
  return result;
}

SearchSpace SearchSpace::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path))
    throw UserError(fmt::format("{}: cannot be read; check that the file exists", path));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse(text, std::filesystem::path(path).filename().string());
}

}  // namespace knobwise
