// JSON that others wrote.
#pragma once

#include <string>
#include <string_view>

namespace knobwise {

/// Throws UserError, naming the text, when lists and objects stand in each other more deeply than any file
/// that people or tuners write: copying and printing such values recurses, and the stack has an end. Call it
/// before parsing. The text need not be JSON.
void require_shallow_json(std::string_view text, const std::string& name);

}  // namespace knobwise
