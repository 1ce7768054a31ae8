#include "bench/weighed_designs.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/cuda/direct_conv_family.h"
#include "search_spaces/user_error.h"
#include "tests/tuner/respaced_family.h"

namespace knobwise {
namespace {

using nlohmann::ordered_json;

// Of direct_conv's constraints, those that only keep a search from what seldom wins.
const std::set<std::string> kPreferences = {
    "few sums a thread load more than they multiply",
    "few channels a thread load more than they multiply",
    "a tile must not reach far past the output",
    "wide copies cost nothing but the columns before the padding",
    "a block of few threads wastes what it stages",
    "a block of whole warps",
    "as many blocks as the registers allow",
    "warps spread evenly over the four schedulers of a multiprocessor",
    "the inner loop stays in the instruction cache",
    "rows of a small filter are unrolled",
    "a step must pay for its barrier",
    "a longer step only takes shared memory",
    "weights are read through the cache only where staging takes much shared memory",
    "enough warps hide latency",
    "a small tile stages more halo than it computes",
};

const std::map<std::string, std::string> kValues = {
    {"vector_width", "[v for v in [1, 2, 4] if v <= ow]"},
    {"channels_per_thread", "[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]"},
    {"channels_per_block", "[v for v in [8, 16, 24, 32, 64, 96, 128] if not epilogue_softmax or v >= k]"},
    {"tile_w", "[v for v in [4, 8, 16, 32, 64, 128, 256, 512, 1024] if v < 2 * ow]"},
    {"tile_h", "[v for v in [1, 2, 4, 8, 16, 32] if v < 2 * oh]"},
    {"input_channels_per_step", "[v for v in [1, 2, 3, 4, 8, 16, 32, 64] if c_per_group % v == 0]"},
};

std::string widened(const KernelFamily& family) {
  ordered_json space = ordered_json::parse(family.space_json());
  ordered_json& declared = space.at("ConfigurationSpace");
  for (ordered_json& knob : declared.at("TuningParameters")) {
    if (const auto values = kValues.find(knob.at("Name").get<std::string>()); values != kValues.end())
      knob["Values"] = values->second;
    if (knob.at("Name") == "min_blocks") knob["Default"] = "1";  // no cap on registers but a design's own
  }
  ordered_json conditions = ordered_json::array();
  for (const ordered_json& condition : declared.at("Conditions")) {
    const std::string reason = condition.at("Reason");
    // Another limit on the threads, of fewer than a device has, stands beside that of the device.
    const bool fewer_threads = reason == "threads of a block" &&
                               condition.at("Expression").get<std::string>().find("512") != std::string::npos;
    if (!kPreferences.contains(reason) && !fewer_threads) conditions.push_back(condition);
  }
  declared["Conditions"] = conditions;
  return space.dump();
}

// The family's space with these knobs held: what is valid in it is valid in the family's.
std::string held(const KernelFamily& family, const WeighedDesign& design) {
  ordered_json space = ordered_json::parse(family.space_json());
  for (const auto& [name, value] : design.knobs) {
    ordered_json& knobs = space.at("ConfigurationSpace").at("TuningParameters");
    const auto knob =
        std::find_if(knobs.begin(), knobs.end(), [&](const auto& entry) { return entry.at("Name") == name; });
    if (knob == knobs.end())
      throw UserError(fmt::format("{}: {} has no knob {}", design.name, design.family, name));
    const ordered_json& values = knob->at("Values");
    const std::string all = values.is_string() ? values.get<std::string>() : values.dump();
    const char* quote = std::holds_alternative<std::string>(value) ? "'" : "";
    (*knob)["Values"] =
        fmt::format("[held for held in ({0}) if held == {1}{2}{1}]", all, quote, to_string(value));
    knob->erase("Default");
  }
  return space.dump();
}

}  // namespace

std::vector<WeighedProblem> read_weighed_designs(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw UserError(fmt::format("{}: cannot be read", path.string()));
  std::vector<WeighedProblem> problems;
  try {
    for (const ordered_json& entry : ordered_json::parse(file)) {
      WeighedProblem problem{entry.at("label"), Problem::parse(entry.at("problem").get<std::string>()), {}};
      for (const ordered_json& design : entry.at("designs")) {
        problem.designs.push_back({design.at("name"), design.at("family"), design.value("note", ""),
                                   Configuration::from_json(design.at("knobs").dump()).knobs()});
      }
      problems.push_back(std::move(problem));
    }
  } catch (const ordered_json::exception& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.what()));
  }
  return problems;
}

const KernelFamily& direct_conv_designs_family() {
  static const test::RespacedFamily family(cuda_direct_conv_family(), "direct_conv_designs",
                                           widened(cuda_direct_conv_family()));
  return family;
}

Configuration design_configuration(const WeighedDesign& design, const Problem& problem,
                                   const DeviceInfo& device) {
  const KernelFamily* family = find_family(device.backend, design.family);
  if (!family) throw UserError(fmt::format("{}: there is no family {}", design.name, design.family));
  if (const auto reason = family->unsupported_reason(problem, device))
    throw UserError(fmt::format("{}: {}", design.name, *reason));
  const test::RespacedFamily narrowed(*family, design.family, held(*family, design));
  const BoundSpace candidates = bind_space(narrowed, problem, device);
  if (candidates.empty())
    throw UserError(fmt::format("{}: no valid configuration has its knobs", design.name));
  return candidates.configuration(candidates.default_index());
}

}  // namespace knobwise
