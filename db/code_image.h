// Machine code as the database holds it: compressed, under the hash of its content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace knobwise {

/// XXH3 of 128 bits in 32 lower-case hexadecimal digits: finds damage and equal content. It is no protection
/// against a forger.
std::string content_hash(std::string_view image);

/// A zstd frame.
std::string compress_image(std::string_view image);

/// The image of a frame, if it has exactly `bytes` bytes and the hash; none otherwise. Never allocates more
/// than `bytes`, nor more than 1 GiB.
std::optional<std::string> decompress_image(std::string_view frame, std::int64_t bytes,
                                            std::string_view hash);

}  // namespace knobwise
