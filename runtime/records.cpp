#include "runtime/records.h"

#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/device.h"

namespace knobwise {

DeviceRecord device_record(const DeviceInfo& device) {
  DeviceRecord record;
  record.backend = to_string(device.backend);
  record.vendor = device.vendor;
  record.name = device.name;
  record.architecture = device.architecture;
  record.multiprocessors = std::max(1, device.multiprocessors);
  record.memory_bytes = device.memory_bytes;
  record.clock_khz = device.clock_khz;
  record.memory_clock_khz = device.memory_clock_khz;
  record.l2_bytes = device.backend == Backend::cpu && device.l3_bytes > 0 ? device.l3_bytes : device.l2_bytes;
  record.shared_memory_per_block = device.shared_bytes_per_block;
  nlohmann::ordered_json extra;
  if (device.backend == Backend::cuda) {
    extra["compute_capability"] = device.compute_capability;
    extra["registers_per_multiprocessor"] = device.registers_per_multiprocessor;
    extra["shared_bytes_per_multiprocessor"] = device.shared_bytes_per_multiprocessor;
  } else {
    extra["vector_bytes"] = device.vector_bytes;
    extra["l1_bytes"] = device.l1_bytes;
    extra["l2_bytes_per_core"] = device.l2_bytes;
  }
  record.extra = extra.dump();
  return record;
}

EnvironmentRecord environment_record(const DeviceInfo& device) {
  EnvironmentRecord record;
  if (device.backend == Backend::cuda) {
    record.driver_version = device.driver_version;
    record.toolkit_version = compiler_version(device.backend);
  } else {
    record.compiler = compiler_version(device.backend);
  }
  record.knobwise_version = KNOBWISE_VERSION;
  utsname system{};
  if (uname(&system) == 0) record.os = std::string(system.sysname) + " " + system.machine;
  return record;
}

ProblemRecord problem_record(const Problem& problem) {
  ProblemRecord record;
  record.line = problem.to_string();
  record.op = record.line.substr(0, record.line.find(' '));
  record.dtype = to_string(problem.dtype);
  record.layout = to_string(problem.layout);
  if (!problem.user.empty()) record.dtype = record.layout = "-";
  const std::size_t bar = record.line.find('|');
  if (bar != std::string::npos)
    record.epilogue = record.line.substr(record.line.find_first_not_of(' ', bar + 1));
  record.rank = std::max(1, problem.rank);
  record.flops = problem.flops();
  record.compulsory_bytes = problem.compulsory_bytes();
  record.n = problem.n, record.c = problem.c, record.k = problem.k, record.groups = problem.groups;
  record.d = problem.in[0], record.h = problem.in[1], record.w = problem.in[2];
  record.t = problem.filter[0], record.r = problem.filter[1], record.s = problem.filter[2];
  record.stride_d = problem.stride[0], record.stride_h = problem.stride[1],
  record.stride_w = problem.stride[2];
  record.pad_d = problem.pad[0], record.pad_h = problem.pad[1], record.pad_w = problem.pad[2];
  record.dilation_d = problem.dilation[0], record.dilation_h = problem.dilation[1];
  record.dilation_w = problem.dilation[2];
  return record;
}

FamilyRecord family_record(const KernelFamily& family) {
  return {std::string(to_string(family.backend())), std::string(family.name()), family.source_hash()};
}

ErrorRecord error_record(Distribution distribution, const ErrorMetrics& metrics) {
  ErrorRecord record;
  record.distribution = to_string(distribution);
  record.max_abs = metrics.max_abs, record.mean_abs = metrics.mean_abs, record.rms = metrics.rms;
  record.rel_fro = metrics.rel_fro, record.frac_outside = metrics.frac_outside;
  record.checked = metrics.checked, record.nan_count = metrics.nans;
  return record;
}

AccuracyLimits accuracy_limits(const AccuracyRequirement& requirement) {
  AccuracyLimits limits;
  limits.max_abs = requirement.max_abs;
  limits.rel_fro = requirement.rel_fro;
  limits.frac_outside = requirement.frac_outside;
  return limits;
}

std::vector<FamilyRecord> current_families(Backend backend) {
  std::vector<FamilyRecord> records;
  for (const KernelFamily* family : families(backend)) records.push_back(family_record(*family));
  return records;
}

}  // namespace knobwise
