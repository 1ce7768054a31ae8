// The designs that engineers weigh by hand for the reference problems, as configurations.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/device_info.h"
#include "kernels/family.h"

namespace knobwise {

/// One design: the knobs that make it this one, and what there is to say of it.
struct WeighedDesign {
  std::string name, family, note;
  std::vector<std::pair<std::string, Value>> knobs;
};

struct WeighedProblem {
  std::string label;  ///< "P1"
  Problem problem;
  std::vector<WeighedDesign> designs;
};

/// Reads bench/weighed_designs.json. Throws UserError for a file that is not such a list.
std::vector<WeighedProblem> read_weighed_designs(const std::filesystem::path& path);

/// The CUDA family "direct_conv_designs": the kernels of direct_conv with a space that keeps only what the
/// kernels need, not what makes a search short. Lives as long as the program.
const KernelFamily& direct_conv_designs_family();

/// Of the valid configurations in which the design's knobs have its values, the one nearest to the family's
/// defaults. Throws UserError when there is none; the family must support the problem.
Configuration design_configuration(const WeighedDesign& design, const Problem& problem,
                                   const DeviceInfo& device);

}  // namespace knobwise
