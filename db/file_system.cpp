#include "db/file_system.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace knobwise {

bool supports_write_ahead_log(std::uint64_t magic) {
  // From linux/magic.h and the file systems' own sources.
  static constexpr std::array<std::uint64_t, 16> kShared = {
      0x6969,      // NFS
      0x517B,      // SMB
      0xFE534D42,  // SMB2
      0xFF534D42,  // CIFS
      0x65735546,  // FUSE, virtiofs
      0x01021997,  // 9p
      0x5346414F,  // AFS
      0x73757245,  // Coda
      0x564C,      // NCP
      0x00C36400,  // Ceph
      0x0BD00BD0,  // Lustre
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
      0xAAD7AAEA,  // PanFS
      0x7461636F,  // OCFS2
      0x01161970,  // GFS2
  };
  return std::find(kShared.begin(), kShared.end(), magic) == kShared.end();
}

bool supports_write_ahead_log(const std::filesystem::path& database) {
  struct statfs status = {};
  const std::filesystem::path folder = std::filesystem::absolute(database).parent_path();
  if (statfs(folder.c_str(), &status) != 0) return false;
  // f_type is signed on some platforms; the magics have 32 bits.
  return supports_write_ahead_log(static_cast<std::uint64_t>(status.f_type) & 0xFFFFFFFF);
}

}  // namespace knobwise
