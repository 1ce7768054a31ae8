#include "db/code_image.h"

#include <fmt/core.h>
#include <zstd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdexcept>

namespace knobwise {
namespace {
constexpr int kLevel = 9;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
}  // namespace

std::string content_hash(std::string_view image) {
  const XXH128_hash_t hash = XXH3_128bits(image.data(), image.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string compress_image(std::string_view image) {
  std::string frame(ZSTD_compressBound(image.size()), '\0');
  const std::size_t size = ZSTD_compress(frame.data(), frame.size(), image.data(), image.size(), kLevel);
  if (ZSTD_isError(size)) throw std::runtime_error(fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

std::optional<std::string> decompress_image(std::string_view frame, std::int64_t bytes,
                                            std::string_view hash) {
  if (bytes <= 0 || bytes > kMostBytes) return std::nullopt;
  // The frame says how long it is before anything is allocated for it.
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != static_cast<unsigned long long>(bytes))
    return std::nullopt;
  std::string image(static_cast<std::size_t>(bytes), '\0');
  const std::size_t size = ZSTD_decompress(image.data(), image.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) || size != image.size() || content_hash(image) != hash) return std::nullopt;
  return image;
}

}  // namespace knobwise
