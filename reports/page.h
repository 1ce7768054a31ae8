// The built page with a report's data put in.
#pragma once

#include <string>
#include <string_view>

namespace knobwise {

/// The whole HTML document. The data travels as gzip in base64, whose alphabet needs no escaping anywhere in
/// HTML; `title` is escaped.
std::string fill_page(std::string_view title, std::string_view data_json);

}  // namespace knobwise
