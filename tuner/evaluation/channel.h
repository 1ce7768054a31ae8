// Messages between the processes of a tuning session.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace knobwise {

/// Sends one message as a length and CBOR; blocks until written. False when the other side is gone.
bool send_message(int descriptor, const nlohmann::json& message);

/// Puts messages back together from the bytes of one descriptor. Not thread-safe; does not own the
/// descriptor.
class MessageReader {
 public:
  explicit MessageReader(int descriptor) : descriptor_(descriptor) {}

  /// Reads what is there (blocks if nothing is); false at the end of the stream or on bytes that are no
  /// message.
  bool fill();
  /// The next complete message, if one has arrived.
  std::optional<nlohmann::json> next();
  /// Blocks until a message is complete; none at the end of the stream.
  std::optional<nlohmann::json> wait();

 private:
  int descriptor_;
  std::string pending_;
};

}  // namespace knobwise
