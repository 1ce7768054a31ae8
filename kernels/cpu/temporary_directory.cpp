#include "kernels/cpu/temporary_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "knobwise-compile-";

[[noreturn]] void fail(const std::string& why) {
  throw UserError(
      fmt::format("no temporary directory can be made ({}); set TMPDIR to a writable folder", why));
}

/// The directory, opened and locked; nothing if it is another's, in use, or gone.
std::optional<int> lock_directory(const std::string& path, int wait) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  struct stat opened {
  }, there{};
  const bool ours = fstat(descriptor, &opened) == 0 && opened.st_uid == geteuid() &&
                    flock(descriptor, LOCK_EX | wait) == 0 && stat(path.c_str(), &there) == 0 &&
                    there.st_ino == opened.st_ino;
  if (ours) return descriptor;
  close(descriptor);
  return std::nullopt;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::error_code error;
  const std::string pattern = (fs::temp_directory_path(error) / kPrefix).string() + "XXXXXX";
  if (error) fail(error.message());
  // Who looks for abandoned ones may have found it before it was locked, and removed it.
  for (int tries = 0; tries < 100 && lock_ < 0; ++tries) {
    path_ = pattern;
    if (mkdtemp(path_.data()) == nullptr) fail(std::strerror(errno));
    lock_ = lock_directory(path_, 0).value_or(-1);
  }
  if (lock_ < 0) fail("it cannot be locked");
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

void remove_abandoned_directories() noexcept try {
  std::error_code error;
  for (fs::directory_iterator it(fs::temp_directory_path(error), error), end; !error && it != end;
       it.increment(error)) {
    if (!it->path().filename().string().starts_with(kPrefix)) continue;
    const std::optional<int> lock = lock_directory(it->path(), LOCK_NB);
    if (!lock) continue;
    std::error_code ignored;
    fs::remove_all(it->path(), ignored);
    close(*lock);
  }
} catch (const std::exception&) {  // no memory: the next one tries again
}

}  // namespace knobwise
