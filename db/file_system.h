// What the file system of a database allows.
#pragma once

#include <cstdint>
#include <filesystem>

namespace knobwise {

/// False for network, cluster and user-space file systems: a write-ahead log needs memory that all processes
/// share, which other hosts do not. `magic` is statfs's f_type.
bool supports_write_ahead_log(std::uint64_t magic);

/// The same for the file system that holds the folder of `database`; false when it cannot be asked.
bool supports_write_ahead_log(const std::filesystem::path& database);

}  // namespace knobwise
