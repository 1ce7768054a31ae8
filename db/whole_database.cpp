#include "db/whole_database.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;

/// A database beside its place, which goes with the object.
class Part {
 public:
  explicit Part(const fs::path& place) : path_(place.string() + fmt::format(".{}.part", getpid())) {}
  ~Part() {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path_.string() + suffix, ignored);
  }
  const fs::path& path() const { return path_; }

  /// A link never replaces what is there; where there are no links, a rename has to do.
  void move_to(const fs::path& place) const {
    std::error_code error;
    if (fs::exists(path_.string() + "-wal")) error = std::make_error_code(std::errc::no_space_on_device);
    if (!error) fs::create_hard_link(path_, place, error);
    if (error == std::errc::operation_not_permitted || error == std::errc::operation_not_supported)
      fs::rename(path_, place, error);
    if (error == std::errc::file_exists)
      throw UserError(fmt::format("'{}' was made by another process meanwhile: try again", place.string()));
    if (error)
      throw UserError(fmt::format("database '{}' cannot be made: {}", place.string(), error.message()));
  }

 private:
  fs::path path_;
};

}  // namespace

void change_or_make(const fs::path& path, const std::function<void(Store&)>& change) {
  if (path.empty() || fs::exists(path)) {
    Store store = Store::open(path, Store::Mode::read_write);
    return change(store);
  }
  const Part part(path);
  {
    Store store = Store::open(part.path(), Store::Mode::read_write);
    change(store);
  }
  part.move_to(path);
}

}  // namespace knobwise
