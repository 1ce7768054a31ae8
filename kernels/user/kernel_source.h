// The text of a user's kernel, with the files that it includes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace knobwise {

/// A file, read. Throws UserError naming it.
std::string read_source_file(const std::filesystem::path& path);

/// A digest of the text and of every file that it includes by quotes, as far as they are found beside the
/// including file: what the compiler will read.
std::string source_digest(const std::string& text, const std::filesystem::path& folder);

/// The text with `extern "C"` in front of every declaration of the __global__ function, so that it can be
/// found by its name; unchanged where the text says extern "C" itself. The function must be no template.
std::string with_c_linkage(std::string_view text, std::string_view function);

}  // namespace knobwise
