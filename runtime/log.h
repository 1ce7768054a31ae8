// Where the runtime says what nobody asked to hear in another way.
#pragma once

#include <string>

namespace knobwise::runtime_detail {

/// One line each on standard error, through spdlog. Thread-safe.
void log_info(const std::string& message);
void log_warning(const std::string& message);

}  // namespace knobwise::runtime_detail
