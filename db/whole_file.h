// Files that are written whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>

namespace knobwise {

/// Gives `path` what `write` puts into the stream: beside it first, so that a file that is there stays whole
/// until the new one is. Throws UserError if the file cannot be written, or if `path` is a database or
/// anything but an ordinary file, which stays as it is; passes on what `write` throws.
void write_whole_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);

}  // namespace knobwise
