// What the operating system says of this machine.
#pragma once

#include <cstdint>
#include <string>

namespace knobwise {

/// Memory that can be had now without swapping: MemAvailable of /proc/meminfo, less where a control group
/// allows less. 64-bit maximum if nothing says.
std::int64_t available_memory_bytes();

/// All memory of the machine, or of the control group.
std::int64_t total_memory_bytes();

/// Processors that a control group's quota pays for, rounded up; a large number without a quota.
int quota_cpus();

/// The value of the first line `key : value` of /proc/cpuinfo; empty if there is none.
std::string cpuinfo(const std::string& key);

/// The highest clock of the first processor as the operating system knows it; 0 where it does not (the
/// current clock varies and is no property of the machine).
std::int64_t max_clock_khz();

/// Data (or unified) cache of `level` of the first allowed processor; 0 if unknown.
std::int64_t cache_bytes(int level);

}  // namespace knobwise
