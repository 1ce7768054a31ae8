// Reading files that may be compressed by gzip. Internal to tuner/simulation/.
#pragma once

#include <string>

namespace knobwise {

/// The content of a file, decompressed if it is gzip. Throws UserError when it cannot be read.
std::string read_file_or_gzip(const std::string& path);

}  // namespace knobwise
