#include "search_spaces/t1_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "search_spaces/json_text.h"
#include "search_spaces/user_error.h"

namespace knobwise {

using nlohmann::json;

std::string plain_word(std::string_view word) {
  std::string result;
  for (const char c : word) {
    if (c != '_' && c != '-' && c != ' ')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

const json* t1_member(const json& parent, std::string_view key) {
  if (!parent.is_object()) return nullptr;
  for (const auto& [name, value] : parent.items()) {
    if (plain_word(name) == plain_word(key)) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::string t1_text(const json& parent, std::string_view key) {
  const json* found = t1_member(parent, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

json parse_t1_json(std::string_view text, const std::string& source) {
  require_shallow_json(text, source);
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
  } catch (const json::out_of_range&) {
    throw UserError(fmt::format("{}: holds a number that is too large", source));
  }
}

void t1_error(const std::string& place, const std::string& message) {
  throw UserError(fmt::format("{}: {}", place, message));
}

Expression t1_expression(const std::string& text, const std::string& place) {
  try {
    return Expression::parse(text);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", place, error.what()), error.text(), error.offset(), error.length());
  }
}

Expression t1_scalar(const json& value, bool quoted, const std::string& place) {
  if (value.is_string() && !quoted) return t1_expression(value.get<std::string>(), place);
  if (value.is_string()) return Expression::literal(value.get<std::string>());
  if (value.is_boolean()) return Expression::literal(value.get<bool>());
  if (value.is_number_integer()) return t1_expression(value.dump(), place);
  if (value.is_number()) return Expression::literal(value.get<double>());
  t1_error(place, fmt::format("expected a number, a text, true or false, found {}", value.dump()));
}

}  // namespace knobwise
