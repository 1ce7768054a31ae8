#include "db/identifiers.h"

#include <fmt/core.h>

#include <cstdint>
#include <random>

namespace knobwise {

std::string utc_text(std::chrono::system_clock::time_point moment) {
  using namespace std::chrono;
  const auto whole_ms = floor<milliseconds>(moment);
  const auto day = floor<days>(whole_ms);
  const year_month_day date(day);
  const hh_mm_ss time(whole_ms - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

std::string utc_now() {
  return utc_text(std::chrono::system_clock::now());
}

std::string make_uuid() {
  std::random_device random;
  const auto word = [&random] { return static_cast<std::uint32_t>(random()); };
  const std::uint32_t a = word(), b = word(), c = word(), d = word();
  // RFC 4122: version 4 in the third group, variant 10 in the fourth.
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:04x}{:08x}", a, b >> 16, b & 0xfff,
                     0x8000 | (c & 0x3fff), c >> 16, d);
}

}  // namespace knobwise
