// What is fuzzed: each takes any bytes and must end with a result or a UserError. Anything else is a defect,
// and its input becomes a file in seeds/.
#pragma once

#include <string_view>

namespace knobwise::fuzz {

void t1(std::string_view text);        ///< A search space.
void t4(std::string_view text);        ///< An import of results.
void csv(std::string_view text);       ///< An import of trials.
void problem(std::string_view text);   ///< A problem line; what parses must print and parse back.
void database(std::string_view file);  ///< Opening, reading, checking and salvaging a file.

}  // namespace knobwise::fuzz
