// Machine code on disk, so that nothing is compiled twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "kernels/device.h"

namespace knobwise {

/// A folder of compiled code, one file for each content: the key is a digest of source, architecture,
/// compiler and its options.
///
/// Any number of processes and threads may share a folder: files appear whole (written beside, then renamed)
/// and are checked when read; a damaged one counts as absent. A folder that cannot be written only costs
/// time.
class CodeCache {
 public:
  struct Info {
    std::int64_t files = 0, bytes = 0;
  };

  /// `folder` is made when the first code is stored. Keeps at most about `limit_bytes`: the longest unused go
  /// first.
  explicit CodeCache(std::filesystem::path folder = default_folder(),
                     std::int64_t limit_bytes = kDefaultLimit);

  /// The stored code, else that of compile(), which is stored. Throws what compile() throws.
  CompiledCode get_or_compile(const KernelInstance& instance, const DeviceInfo& target) const;

  const std::filesystem::path& folder() const { return folder_; }
  Info info() const;
  /// Removes every stored code; the number of files removed.
  std::int64_t clear() const;

  /// $KNOBWISE_CACHE, else $XDG_CACHE_HOME/knobwise, else ~/.cache/knobwise. UserError if there is no home.
  static std::filesystem::path default_folder();
  static constexpr std::int64_t kDefaultLimit = std::int64_t{1} << 30;

 private:
  void trim() const;

  std::filesystem::path folder_;
  std::int64_t limit_bytes_;
};

}  // namespace knobwise
