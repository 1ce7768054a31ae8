// Reading T1 files: JSON whose keys differ in case and separators from tool to tool.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "search_spaces/expression.h"

namespace knobwise {

/// A key or word without case and separators: TuningParameters and tuning_parameters are one.
std::string plain_word(std::string_view word);

/// The member of an object; null if it is absent, is null itself or the parent is no object.
const nlohmann::json* t1_member(const nlohmann::json& parent, std::string_view key);

/// The member as text; empty if there is none or it is no text.
std::string t1_text(const nlohmann::json& parent, std::string_view key);

/// Throws UserError that says where the JSON is not well formed; `source` names the text.
nlohmann::json parse_t1_json(std::string_view text, const std::string& source);

/// Throws UserError: "place: message".
[[noreturn]] void t1_error(const std::string& place, const std::string& message);

/// Expression::parse(); the message of a mistake begins with the place.
Expression t1_expression(const std::string& text, const std::string& place);

/// A number, boolean or text as an expression; text is taken as it is if `quoted`, otherwise as an
/// expression.
Expression t1_scalar(const nlohmann::json& value, bool quoted, const std::string& place);

}  // namespace knobwise
