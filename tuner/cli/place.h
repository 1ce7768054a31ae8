// What is wrong, as a terminal shows it: one line, and under it the place in its text.
#pragma once

#include <string>

#include "search_spaces/user_error.h"

namespace knobwise::cli {

/// The error's message, and below it the part of its text around the mistake, underlined, where it has one:
/// whole lines, each ended. Control characters are shown as blanks, so that foreign text cannot command the
/// terminal; text that is long is cut, so that the place fits 80 columns.
std::string format_error(const UserError& error);

}  // namespace knobwise::cli
