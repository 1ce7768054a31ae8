// The physical limits of a device, for the roofline.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/records.h"

namespace knobwise {

/// The most that one resource of a device delivers.
struct Ceiling {
  std::string resource;   ///< "memory" in bytes a second; an arithmetic, "fp32", "tf32", "fp16" or "bf16", in
                          ///< FLOP a second.
  double per_second = 0;  ///< Above 0.
  bool measured = false;  ///< On the device itself; otherwise derived from rated clocks.
};

/// Measured ceilings stand in DeviceRecord::extra: {"ceilings": {"memory": 4.25e12, "fp32": 5.07e13, ...}}.
/// What is missing there is derived from the rated clock where the architecture's rates are published; a
/// resource that is known neither way is left out. Never throws on a malformed `extra`.
///
/// Rates per multiprocessor and cycle: the whitepapers of NVIDIA's A100 (sm_80), Ada (sm_89) and H100 (sm_90)
/// architectures, dense operands, fp32 accumulation. Processors: two fused multiply-adds a cycle and thread
/// over the width of the vector registers.
std::vector<Ceiling> device_ceilings(const DeviceRecord& device);

/// DeviceRecord::extra with the ceilings measured at `moment` (see db/identifiers.h) in place of earlier
/// ones.
std::string with_ceilings(const std::string& extra, const std::map<std::string, double>& measured,
                          const std::string& moment);

/// The least time that the ceilings allow.
struct FloorTime {
  double time_us = 0;
  std::string resource;   ///< That of the ceiling which decides.
  bool measured = false;  ///< Whether that ceiling is.
};

/// The floor of a problem in a precision mode ("fp32", "tf32", "bf16x3"; any other word computes in the
/// problem's type): its compulsory bytes at the memory's ceiling, its operations at the arithmetic's,
/// whichever takes longer. Nothing where neither ceiling is known. The report's page computes the same.
std::optional<FloorTime> floor_time(const DeviceRecord& device, const ProblemRecord& problem,
                                    std::string_view precision);

}  // namespace knobwise
