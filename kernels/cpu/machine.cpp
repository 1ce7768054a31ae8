#include "kernels/cpu/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace knobwise {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The first word of a file; empty if it cannot be read.
std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// A file of one number; anything else (a control group's `max`, no such file) counts as unlimited.
std::int64_t limit(const std::string& path) {
  std::istringstream word(first_word(path));
  std::int64_t value = 0;
  return word >> value && value > 0 ? value : kUnlimited;
}

/// Version 2, then version 1 of control groups, as a container sees them.
std::int64_t group_memory_limit() {
  return std::min(limit("/sys/fs/cgroup/memory.max"), limit("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

std::int64_t group_memory_used() {
  for (const char* path : {"/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes"})
    if (const std::int64_t used = limit(path); used != kUnlimited) return used;
  return 0;
}

std::int64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == key + ":") return kilobytes * 1024;
  }
  return kUnlimited;
}

/// "48K", "1024K", "32M".
std::int64_t parse_size(const std::string& text) {
  std::istringstream words(text);
  std::int64_t value = 0;
  char unit = 0;
  words >> value >> unit;
  return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : value;
}

std::int64_t sysconf_cache_bytes(int level) {
  const int name = level == 1   ? _SC_LEVEL1_DCACHE_SIZE
                   : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                                : _SC_LEVEL3_CACHE_SIZE;
  return std::max(0L, sysconf(name));
}

}  // namespace

std::int64_t available_memory_bytes() {
  const std::int64_t group = group_memory_limit();
  const std::int64_t group_free =
      group == kUnlimited ? kUnlimited : std::max<std::int64_t>(0, group - group_memory_used());
  return std::min(meminfo("MemAvailable"), group_free);
}

std::int64_t total_memory_bytes() {
  return std::min(meminfo("MemTotal"), group_memory_limit());
}

int quota_cpus() {
  std::ifstream version2("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(version2 >> quota >> period)) {
    quota = static_cast<double>(limit("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
    period = static_cast<double>(limit("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  }
  const double cpus = period > 0 ? quota / period : 0;
  return cpus > 0 && cpus < 1e6 && quota < 1e15 ? std::max(1, static_cast<int>(cpus + 0.999)) : 1 << 20;
}

std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (name == key) return colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return "";
}

std::int64_t max_clock_khz() {
  const std::int64_t clock = limit("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  return clock == kUnlimited ? 0 : clock;
}

std::int64_t cache_bytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (first_word(folder + "level") == std::to_string(level) && first_word(folder + "type") != "Instruction")
      return parse_size(first_word(folder + "size"));
  }
  return sysconf_cache_bytes(level);
}

}  // namespace knobwise
