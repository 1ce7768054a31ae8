#include "kernels/cuda/device_source.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "embedded/cuda_sources.h"
#include "search_spaces/user_error.h"

namespace knobwise {

std::string device_source(std::string_view file) {
  if (const char* folder = std::getenv("KNOBWISE_CUDA_SOURCES"); folder && *folder) {
    std::ifstream stream(fmt::format("{}/{}", folder, file), std::ios::binary);
    if (stream) return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  for (const auto& [name, text] : cuda_sources()) {
    if (name == file) return std::string(text);
  }
  throw UserError(fmt::format("there is no device source named {}", file));
}

std::string text_digest(std::initializer_list<std::string_view> texts) {
  std::string joined;
  for (std::string_view text : texts) {
    joined += fmt::format("{}:", text.size());
    joined += text;
  }
  const XXH128_hash_t hash = XXH3_128bits(joined.data(), joined.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace knobwise
