#include "tuner/evaluation/channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace knobwise {
namespace {

// A frame is its length in 8 bytes, then that many bytes of CBOR. Machine code is the largest content there
// is.
constexpr std::uint64_t kLargestFrame = std::uint64_t{1} << 31;

bool write_all(int descriptor, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    // MSG_NOSIGNAL: a dead worker is an error to handle, not a SIGPIPE.
    const ssize_t written = send(descriptor, data, bytes, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

bool send_message(int descriptor, const nlohmann::json& message) {
  const std::vector<std::uint8_t> body = nlohmann::json::to_cbor(message);
  const std::uint64_t length = body.size();
  std::array<char, sizeof length> header;
  std::memcpy(header.data(), &length, sizeof length);
  return write_all(descriptor, header.data(), header.size()) &&
         write_all(descriptor, reinterpret_cast<const char*>(body.data()), body.size());
}

bool MessageReader::fill() {
  std::array<char, 1 << 16> chunk;
  ssize_t got;
  do {
    got = read(descriptor_, chunk.data(), chunk.size());
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  pending_.append(chunk.data(), static_cast<std::size_t>(got));
  std::uint64_t length = 0;
  if (pending_.size() >= sizeof length) std::memcpy(&length, pending_.data(), sizeof length);
  return length <= kLargestFrame;
}

std::optional<nlohmann::json> MessageReader::next() {
  std::uint64_t length = 0;
  if (pending_.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, pending_.data(), sizeof length);
  if (pending_.size() - sizeof length < length) return std::nullopt;
  const auto begin = pending_.begin() + sizeof length;
  nlohmann::json message = nlohmann::json::from_cbor(begin, begin + static_cast<std::ptrdiff_t>(length));
  pending_.erase(0, sizeof length + length);
  return message;
}

std::optional<nlohmann::json> MessageReader::wait() {
  while (true) {
    if (auto message = next()) return message;
    if (!fill()) return std::nullopt;
  }
}

}  // namespace knobwise
