#include "tuner/simulation/gzip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <memory>

#include "search_spaces/user_error.h"

namespace knobwise {

std::string read_file_or_gzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw UserError(fmt::format("{}: cannot be read; give a T4 file, .json or .json.gz", path));
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string content;
  while (true) {
    const std::size_t size = content.size();
    content.resize(size + kBlock);
    const int read = gzread(file.get(), content.data() + size, static_cast<unsigned>(kBlock));
    if (read < 0) throw UserError(fmt::format("{}: is damaged or is no file; fetch it again", path));
    content.resize(size + static_cast<std::size_t>(read));
    if (read > 0) continue;
    int status = Z_OK;
    gzerror(file.get(), &status);
    if (status == Z_OK || status == Z_STREAM_END) return content;
    throw UserError(fmt::format("{}: is cut short; fetch it again", path));
  }
}

}  // namespace knobwise
