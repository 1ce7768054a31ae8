// The built page, with a report's data put in or to be fetched.
#pragma once

#include <string>
#include <string_view>

namespace knobwise {

/// The whole HTML document. The data travels as gzip in base64, whose alphabet needs no escaping anywhere in
/// HTML; `title` is escaped.
std::string fill_page(std::string_view title, std::string_view data_json);

/// The HTML document for a server: it asks for its data at "data", again and again. Nothing else is fetched.
std::string live_page(std::string_view title);

/// The text in gzip's format, as live_page() wants it with `Content-Encoding: gzip`.
std::string gzip(std::string_view text);

}  // namespace knobwise
