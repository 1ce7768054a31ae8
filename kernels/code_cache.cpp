#include "kernels/code_cache.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".kwc";
constexpr std::uint64_t kMagic = 0x33306364736b776bull;  // changes with the layout of the file

// The file: this header, then the image.
struct Header {
  std::uint64_t magic = kMagic;
  std::uint64_t image_bytes = 0;
  std::uint64_t image_hash = 0;
  Resources resources;
};

std::string key_of(const KernelInstance& instance, const DeviceInfo& target) {
  // The CPU's code is made for the very processor, which its name tells.
  const std::string context =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", to_string(target.backend), target.architecture,
                  target.backend == Backend::cpu ? target.name : "", compiler_version(target.backend),
                  compile_options(target), fmt::join(instance.compiler_options, "\n"));
  const XXH128_hash_t hash = XXH3_128bits_withSeed(instance.source.data(), instance.source.size(),
                                                   XXH3_64bits(context.data(), context.size()));
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

// Of the image under its key: under another name it is not what is asked for.
std::uint64_t hash_of(const CompiledCode& code, const fs::path& path) {
  const std::string key = path.stem().string();
  return XXH3_64bits_withSeed(code.image.data(), code.image.size(), XXH3_64bits(key.data(), key.size()));
}

std::optional<CompiledCode> read_code(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  Header header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) || header.magic != kMagic)
    return std::nullopt;
  std::error_code error;
  if (fs::file_size(path, error) != sizeof header + header.image_bytes) return std::nullopt;
  CompiledCode code;
  code.image.resize(header.image_bytes);
  if (!file.read(code.image.data(), static_cast<std::streamsize>(code.image.size()))) return std::nullopt;
  if (hash_of(code, path) != header.image_hash) return std::nullopt;
  code.resources = header.resources;
  // Marks the file as used, for trim().
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);
  return code;
}

void write_code(const fs::path& path, const CompiledCode& code) {
  static std::atomic<unsigned> counter{0};
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const fs::path temporary = fmt::format("{}.{}.{}", path.string(), getpid(), counter++);
  Header header;
  header.image_bytes = code.image.size();
  header.image_hash = hash_of(code, path);
  header.resources = code.resources;
  {
    std::ofstream file(temporary, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(code.image.data(), static_cast<std::streamsize>(code.image.size()));
    file.close();
    if (!file) {
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, path, error);
  if (error) fs::remove(temporary, error);
}

// As the system has it: a service's environment need not name it. Empty if it is not known.
std::string home_of_user() {
  passwd entry;
  passwd* found = nullptr;
  std::vector<char> texts(1 << 16);
  if (getpwuid_r(geteuid(), &entry, texts.data(), texts.size(), &found) != 0 || !found) return "";
  return entry.pw_dir;
}

struct Entry {
  fs::path path;
  std::int64_t bytes;
  fs::file_time_type used;
};

std::vector<Entry> entries(const fs::path& folder) {
  std::vector<Entry> all;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    // Also what a killed process left half-written beside it.
    if (it->path().filename().string().find(kSuffix) == std::string::npos) continue;
    std::error_code gone;  // another process may remove it
    const auto bytes = it->file_size(gone);
    const auto used = it->last_write_time(gone);
    if (!gone) all.push_back({it->path(), static_cast<std::int64_t>(bytes), used});
  }
  return all;
}

}  // namespace

CodeCache::CodeCache(fs::path folder, std::int64_t limit_bytes)
    : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

CompiledCode CodeCache::get_or_compile(const KernelInstance& instance, const DeviceInfo& target) const {
  const fs::path path = folder_ / (key_of(instance, target) + kSuffix);
  if (auto code = read_code(path)) return std::move(*code);
  CompiledCode code = compile(instance, target);
  write_code(path, code);
  trim();
  return code;
}

CodeCache::Info CodeCache::info() const {
  Info info;
  for (const Entry& entry : entries(folder_)) {
    ++info.files;
    info.bytes += entry.bytes;
  }
  return info;
}

std::int64_t CodeCache::clear() const {
  std::int64_t removed = 0;
  std::error_code error;
  for (const Entry& entry : entries(folder_)) removed += fs::remove(entry.path, error);
  return removed;
}

// Listing the folder costs more than a read, so only some stores do it.
void CodeCache::trim() const {
  static std::atomic<unsigned> stores{0};
  if (stores++ % 64 != 0) return;
  std::vector<Entry> all = entries(folder_);
  std::int64_t total = 0;
  for (const Entry& entry : all) total += entry.bytes;
  if (total <= limit_bytes_) return;
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  std::error_code error;
  for (const Entry& entry : all) {
    if (total <= limit_bytes_ / 2) break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

fs::path CodeCache::default_folder() {
  if (const char* folder = std::getenv("KNOBWISE_CACHE"); folder && *folder) return folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "knobwise";
  const char* home = std::getenv("HOME");
  const std::string folder = home && *home ? home : home_of_user();
  // Nothing that others can write: what lies there is run.
  if (folder.empty())
    throw UserError("there is no folder for compiled code: set KNOBWISE_CACHE to one that is yours, or HOME");
  return fs::path(folder) / ".cache" / "knobwise";
}

}  // namespace knobwise
