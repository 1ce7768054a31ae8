#include "search_spaces/json_text.h"

#include <fmt/format.h>

#include "search_spaces/user_error.h"

namespace knobwise {

void require_shallow_json(std::string_view text, const std::string& name) {
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
