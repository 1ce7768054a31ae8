// Folders for what a compiler reads and writes.
#pragma once

#include <string>

namespace knobwise {

/// A directory under TMPDIR (else /tmp) that goes away with all it holds. Throws UserError if none can be
/// made.
///
/// It is locked (flock) as long as its process lives, so that others see when it is abandoned.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

/// Removes this user's TemporaryDirectory folders whose processes were killed. Those in use stay. Never
/// throws; thread-safe, also beside other processes that do the same.
void remove_abandoned_directories() noexcept;

}  // namespace knobwise
