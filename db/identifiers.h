// Names for moments and sessions.
#pragma once

#include <chrono>
#include <string>

namespace knobwise {

/// A moment as UTC in ISO 8601 with milliseconds: "2026-01-31T12:00:00.000Z". Sorts as text.
std::string utc_text(std::chrono::system_clock::time_point moment);

/// utc_text() of now.
std::string utc_now();

/// A random (version 4) UUID in lower case, from std::random_device: unique across machines and processes.
std::string make_uuid();

}  // namespace knobwise
