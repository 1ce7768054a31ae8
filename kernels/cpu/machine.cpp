#include "kernels/cpu/machine.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <vector>

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

/// The folders right under `parent`, in order; none if it cannot be read.
std::vector<std::filesystem::path> folders_of(const std::filesystem::path& parent) {
  std::vector<std::filesystem::path> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator it(parent, error), end; !error && it != end; it.increment(error))
    folders.push_back(it->path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// A sensor's file in thousandths of a degree.
std::optional<double> millidegrees(const std::filesystem::path& file) {
  std::istringstream word(first_word(file));
  double value = 0;
  if (!(word >> value) || value <= 0) return std::nullopt;
  return value * 1e-3;
}

/// The value of `file` in the first folder under `parent` whose file `name` holds one of `wanted`.
std::optional<double> sensor(const std::filesystem::path& parent, const char* name, const char* file,
                             std::initializer_list<std::string_view> wanted) {
  for (const std::filesystem::path& folder : folders_of(parent)) {
    const std::string found = first_word(folder / name);
    if (std::find(wanted.begin(), wanted.end(), found) == wanted.end()) continue;
    if (const auto degrees = millidegrees(folder / file)) return degrees;
  }
  return std::nullopt;
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

namespace {

// The first and the last byte, to or from a copy: the kernel answers for the copy what would be a signal for
// a load or a store.
class Ends {
 public:
  Ends(const void* data, std::size_t bytes) {
    char* const first = static_cast<char*>(const_cast<void*>(data));
    remote_[0] = {first, 1};
    remote_[1] = {first + std::max<std::size_t>(bytes, 1) - 1, 1};
  }
  bool read() { return possible(process_vm_readv(getpid(), &local_, 1, remote_, 2, 0)); }
  bool write() { return possible(process_vm_writev(getpid(), &local_, 1, remote_, 2, 0)); }

 private:
  static bool possible(ssize_t count) { return count == 2 || (count < 0 && errno != EFAULT); }

  char copy_[2] = {};
  iovec local_{copy_, sizeof copy_};
  iovec remote_[2];
};

// What lies between the ends.
bool mapped(const void* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(data) / page * page;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(data) + bytes;
  std::array<unsigned char, 16384> resident;  // of pages, which does not matter
  for (std::uintptr_t at = first; at < end; at += page * resident.size()) {
    const std::size_t length = std::min<std::size_t>(end - at, page * resident.size());
    if (mincore(reinterpret_cast<void*>(at), length, resident.data()) != 0 && errno == ENOMEM) return false;
  }
  return true;
}

}  // namespace

bool readable(const void* data, std::size_t bytes) {
  return Ends(data, bytes).read() && mapped(data, bytes);
}

bool writable(const void* data, std::size_t bytes) {
  Ends ends(data, bytes);
  return ends.read() && ends.write() && mapped(data, bytes);  // what was there is written
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

std::optional<std::int64_t> current_clock_khz(const std::filesystem::path& sys) {
  std::int64_t fastest = 0;
  for (const std::filesystem::path& cpu : folders_of(sys / "devices/system/cpu")) {
    const std::int64_t khz = limit(cpu / "cpufreq/scaling_cur_freq");
    if (khz != kUnlimited) fastest = std::max(fastest, khz);
  }
  if (fastest == 0) {
    std::istringstream megahertz(cpuinfo("cpu MHz"));
    double value = 0;
    if (megahertz >> value) fastest = static_cast<std::int64_t>(1000 * value);
  }
  return fastest > 0 ? std::optional(fastest) : std::nullopt;
}

std::optional<double> processor_temperature_c(const std::filesystem::path& sys) {
  const auto chip =
      sensor(sys / "class/hwmon", "name", "temp1_input", {"coretemp", "k10temp", "zenpower", "cpu_thermal"});
  return chip ? chip
              : sensor(sys / "class/thermal", "type", "temp", {"x86_pkg_temp", "cpu-thermal", "cpu_thermal"});
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
