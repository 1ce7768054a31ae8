#include "kernels/cuda/resource_report.h"

#include <algorithm>
#include <charconv>

namespace knobwise {
namespace {

// The number that stands before `unit` in `line`; `fallback` if the unit does not occur.
int number_before(std::string_view line, std::string_view unit, int fallback) {
  const std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return fallback;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  int value = fallback;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

// The text between the first pair of quotes after `marker`; empty if the marker does not occur.
std::string_view quoted_after(std::string_view line, std::string_view marker) {
  const std::size_t at = line.find(marker);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = line.find('\'', at) + 1;
  return line.substr(begin, line.find('\'', begin) - begin);
}

void read_line(std::string_view line, Resources& resources) {
  if (line.find("bytes stack frame") != std::string_view::npos) {
    resources.stack_bytes = number_before(line, " bytes stack frame", 0);
    resources.spill_bytes =
        number_before(line, " bytes spill stores", 0) + number_before(line, " bytes spill loads", 0);
  } else if (line.find("Used ") != std::string_view::npos) {
    resources.registers = number_before(line, " registers", resources.registers);
    resources.static_shared_bytes = number_before(line, " bytes smem", 0);
  }
}

}  // namespace

std::map<std::string, Resources, std::less<>> parse_resource_report(std::string_view log) {
  std::map<std::string, Resources, std::less<>> functions;
  Resources* current = nullptr;
  while (!log.empty()) {
    const std::size_t newline = log.find('\n');
    const std::string_view line = log.substr(0, newline);
    log = newline == std::string_view::npos ? std::string_view() : log.substr(newline + 1);
    if (const std::string_view name = quoted_after(line, "Compiling entry function"); !name.empty()) {
      current = &functions[std::string(name)];
      *current = Resources{.registers = 0, .spill_bytes = 0, .stack_bytes = 0, .static_shared_bytes = 0};
    } else if (current) {
      read_line(line, *current);
    }
  }
  return functions;
}

Resources worst_of(const Resources& a, const Resources& b) {
  Resources worst;
  worst.registers = std::max(a.registers, b.registers);
  worst.spill_bytes = std::max(a.spill_bytes, b.spill_bytes);
  worst.stack_bytes = std::max(a.stack_bytes, b.stack_bytes);
  worst.static_shared_bytes = std::max(a.static_shared_bytes, b.static_shared_bytes);
  worst.dynamic_shared_bytes = std::max(a.dynamic_shared_bytes, b.dynamic_shared_bytes);
  const bool known = a.occupancy >= 0 && b.occupancy >= 0;
  worst.occupancy = known ? std::min(a.occupancy, b.occupancy) : std::max(a.occupancy, b.occupancy);
  worst.waves = std::max(a.waves, b.waves);
  worst.binary_bytes = std::max(a.binary_bytes, b.binary_bytes);
  return worst;
}

}  // namespace knobwise
