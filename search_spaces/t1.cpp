// Reads T1 JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "search_spaces/space.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using nlohmann::json;
using Type = KnobDeclaration::Type;

// Published files differ in case and separators: TuningParameters, tuning_parameters.
std::string plain(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c != '_' && c != '-' && c != ' ')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

/// The member of an object; null if it is absent, is null itself or the parent is no object.
const json* member(const json& parent, std::string_view key) {
  if (!parent.is_object()) return nullptr;
  for (const auto& [name, value] : parent.items()) {
    if (plain(name) == plain(key)) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::string text_member(const json& parent, std::string_view key) {
  const json* found = member(parent, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

json parse_json(std::string_view text, const std::string& source) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    const std::size_t at = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::size_t before = text.substr(0, at).rfind('\n');
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    const char* problem = at == text.size() ? "the JSON ends too early" : "the JSON is not well formed";
    throw UserError(fmt::format("{}: line {}, column {}: {}", source, line, at - begin + 1, problem),
                    std::string(text.substr(begin, end - begin)), at - begin, at == text.size() ? 0 : 1);
  }
}

[[noreturn]] void fail(const std::string& place, const std::string& message) {
  throw UserError(fmt::format("{}: {}", place, message));
}

Expression parse_at(const std::string& text, const std::string& place) {
  try {
    return Expression::parse(text);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", place, error.what()), error.text(), error.offset(), error.length());
  }
}

/// A scalar as an expression; text is taken as it is if `quoted`, otherwise as an expression.
Expression scalar(const json& value, bool quoted, const std::string& place) {
  if (value.is_string() && !quoted) return parse_at(value.get<std::string>(), place);
  if (value.is_string()) return Expression::literal(value.get<std::string>());
  if (value.is_boolean()) return Expression::literal(value.get<bool>());
  if (value.is_number_integer()) return parse_at(value.dump(), place);
  if (value.is_number()) return Expression::literal(value.get<double>());
  fail(place, fmt::format("expected a number, a text, true or false, found {}", value.dump()));
}

Type parse_type(const json& parameter, const std::string& place) {
  const std::string name = plain(text_member(parameter, "Type"));
  if (name.empty()) return Type::any;
  if (name.starts_with("int") || name.starts_with("uint")) return Type::integer;
  if (name == "float" || name == "double" || name == "real") return Type::real;
  if (name == "bool" || name == "boolean") return Type::boolean;
  if (name == "string" || name == "str") return Type::text;
  fail(place, fmt::format("unknown Type `{}`; use int, uint, float, bool or string",
                          text_member(parameter, "Type")));
}

KnobDeclaration parse_knob(const json& parameter, const std::string& source, std::size_t number) {
  KnobDeclaration knob;
  knob.name = text_member(parameter, "Name");
  if (knob.name.empty())
    fail(fmt::format("{}: TuningParameters, number {}", source, number), "it has no Name");
  const std::string place = fmt::format("{}: knob `{}`", source, knob.name);
  knob.type = parse_type(parameter, place);
  const json* values = member(parameter, "Values");
  if (values == nullptr) fail(place, "it has no Values");
  if (values->is_array()) {
    const bool quoted = knob.type == Type::text || knob.type == Type::any;
    for (const json& value : *values) knob.values.push_back(scalar(value, quoted, place + ": Values"));
  } else {
    knob.values.push_back(scalar(*values, false, place + ": Values"));
  }
  const json* default_value = member(parameter, "Default");
  if (default_value != nullptr) {
    const bool quoted = knob.type == Type::text || (knob.type == Type::any && default_value->is_string());
    knob.default_value = scalar(*default_value, quoted, place + ": Default");
  }
  return knob;
}

Constraint parse_constraint(const json& condition, const std::string& source, std::size_t number) {
  const std::string place = fmt::format("{}: condition {}", source, number);
  const std::string text =
      condition.is_string() ? condition.get<std::string>() : text_member(condition, "Expression");
  if (text.empty()) fail(place, "it has no Expression");
  return {parse_at(text, place), text_member(condition, "Reason")};
}

const json& array_member(const json& parent, std::string_view key, const std::string& place) {
  static const json kNothing = json::array();
  const json* found = member(parent, key);
  if (found == nullptr) return kNothing;
  if (!found->is_array()) fail(place, fmt::format("{} is not a list", key));
  return *found;
}

}  // namespace

SearchSpace SearchSpace::parse(std::string_view text, const std::string& source) {
  const json document = parse_json(text, source);
  const json* space = member(document, "ConfigurationSpace");
  if (space == nullptr) fail(source, "it is no T1 search space: there is no ConfigurationSpace");
  std::vector<KnobDeclaration> knobs;
  for (const json& parameter : array_member(*space, "TuningParameters", source)) {
    knobs.push_back(parse_knob(parameter, source, knobs.size() + 1));
  }
  std::vector<Constraint> constraints;
  for (const json& condition : array_member(*space, "Conditions", source)) {
    constraints.push_back(parse_constraint(condition, source, constraints.size() + 1));
  }
  SearchSpace result(source, std::move(knobs), std::move(constraints));
  const json* general = member(document, "General");
  const json* kernel = member(document, "KernelSpecification");
  std::string name = general != nullptr ? text_member(*general, "BenchmarkName") : "";
  if (name.empty() && kernel != nullptr) name = text_member(*kernel, "KernelName");
  if (!name.empty()) result.name_ = name;
  if (kernel != nullptr) result.kernel_specification_ = std::make_shared<const json>(*kernel);
  return result;
}

SearchSpace SearchSpace::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError(fmt::format("{}: cannot be read; check that the file exists", path));
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return parse(text, std::filesystem::path(path).filename().string());
}

}  // namespace knobwise
