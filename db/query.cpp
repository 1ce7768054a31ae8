#include "db/query.h"

#include <bit>
#include <limits>

namespace knobwise {
namespace {
constexpr std::size_t kSampleBytes = 4;
}

Query& Query::bind(const std::vector<float>& samples) {
  std::string bytes;
  bytes.reserve(samples.size() * kSampleBytes);
  for (const float sample : samples) {
    const auto bits = std::bit_cast<std::uint32_t>(sample);
    for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xff);
  }
  statement_.bind(++bound_, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size()));
  return *this;
}

void Query::read(double& value) {
  const SQLite::Column column = statement_.getColumn(read_++);
  value = column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
}

void Query::read(std::vector<float>& samples) {
  const SQLite::Column column = statement_.getColumn(read_++);
  const auto* bytes = static_cast<const unsigned char*>(column.getBlob());
  samples.resize(static_cast<std::size_t>(column.getBytes()) / kSampleBytes);
  for (float& sample : samples) {
    std::uint32_t bits = 0;
    for (unsigned shift = 0; shift < 32; shift += 8) bits |= static_cast<std::uint32_t>(*bytes++) << shift;
    sample = std::bit_cast<float>(bits);
  }
}

}  // namespace knobwise
