// Running a plan on fresh inputs: what `run` does for each problem.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "include/knobwise/dispatcher.h"
#include "kernels/accuracy.h"
#include "kernels/device.h"

namespace knobwise::cli {

struct Outcome {
  ErrorMetrics error;
  Timing timing;
  bool accepted = false;   ///< The error meets the requirement.
  std::uint64_t seed = 0;  ///< Of the inputs.
};

/// The plan seen as an executable that needs neither packed weights nor a workspace of the caller, so that a
/// device can time it as it times trials. The plan must be prepared and outlive it.
std::unique_ptr<Executable> executable_of(Plan& plan);

/// Fills new tensors on the device from the seed, prepares and runs the plan once, checks the output against
/// float64, then times it as trials are timed. Throws UserError when the device lacks the memory.
Outcome run_plan(Plan& plan, const std::string& device_name, const AccuracyRequirement& requirement,
                 std::uint64_t seed);

}  // namespace knobwise::cli
