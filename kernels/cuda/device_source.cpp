#include "kernels/cuda/device_source.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "embedded/cuda_sources.h"
#include "search_spaces/user_error.h"

namespace knobwise {

namespace {

std::optional<std::string> overriding_source(std::string_view file) {
  const char* folder = std::getenv("KNOBWISE_CUDA_SOURCES");
  if (!folder || !*folder) return std::nullopt;
  std::ifstream stream(fmt::format("{}/{}", folder, file), std::ios::binary);
  if (!stream) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

std::string_view embedded_source(std::string_view file) {
  for (const auto& [name, text] : cuda_sources()) {
    if (name == file) return text;
  }
  throw UserError(fmt::format("there is no device source named {}", file));
}

// Takes texts as they come: copies of all the sources would be new memory in every process.
class Digest {
 public:
  Digest() { XXH3_128bits_reset(&state_); }
  void add(std::string_view text) {
    const std::string size = fmt::format("{}:", text.size());
    XXH3_128bits_update(&state_, size.data(), size.size());
    XXH3_128bits_update(&state_, text.data(), text.size());
  }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_;
};

}  // namespace

std::string device_source(std::string_view file) {
  if (auto text = overriding_source(file)) return std::move(*text);
  return std::string(embedded_source(file));
}

std::string text_digest(std::initializer_list<std::string_view> texts,
                        std::initializer_list<std::string_view> files) {
  Digest digest;
  for (const std::string_view text : texts) digest.add(text);
  for (const std::string_view file : files) {
    const auto own = overriding_source(file);
    digest.add(own ? *own : embedded_source(file));
  }
  return digest.hex();
}

}  // namespace knobwise
