// JSON that others wrote.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "search_spaces/user_error.h"

namespace knobwise {

/// Throws UserError, naming the text, when lists and objects stand in each other more deeply than any file
/// that people or tuners write: copying and printing such values recurses, and the stack has an end. Call it
/// before parsing. The text need not be JSON.
inline void require_shallow_json(std::string_view text, const std::string& name) {
  constexpr int kDeepest = 100;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) {
      throw UserError(fmt::format("{}: holds more than {} lists and objects in each other: give another file",
                                  name, kDeepest));
    }
  }
}

}  // namespace knobwise
