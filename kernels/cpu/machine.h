// What the operating system says of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace knobwise {

/// Memory that can be had now without swapping: MemAvailable of /proc/meminfo, less where a control group
/// allows less. 64-bit maximum if nothing says.
std::int64_t available_memory_bytes();

/// All memory of the machine, or of the control group.
std::int64_t total_memory_bytes();

/// Processors that a control group's quota pays for, rounded up; a large number without a quota.
int quota_cpus();

/// Whether all of the bytes are mapped, and this process can read the first and the last of them; true where
/// the system does not tell.
bool readable(const void* data, std::size_t bytes);
/// Likewise write, which it does with what is there.
bool writable(const void* data, std::size_t bytes);

/// The value of the first line `key : value` of /proc/cpuinfo; empty if there is none.
std::string cpuinfo(const std::string& key);

/// The highest clock of the first processor as the operating system knows it; 0 where it does not (the
/// current clock varies and is no property of the machine).
std::int64_t max_clock_khz();

/// The clock of the fastest processor now: from cpufreq, else /proc/cpuinfo; nothing if neither says. `sys`
/// is where sysfs is.
std::optional<std::int64_t> current_clock_khz(const std::filesystem::path& sys = "/sys");

/// The temperature of the processor's package: from its hwmon sensor, else its thermal zone; nothing on a
/// machine that shows neither, as most virtual ones. `sys` is where sysfs is.
std::optional<double> processor_temperature_c(const std::filesystem::path& sys = "/sys");

/// Data (or unified) cache of `level` of the first allowed processor; 0 if unknown.
std::int64_t cache_bytes(int level);

}  // namespace knobwise
