#include "kernels/family.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/device.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {

void* Buffers::resolve(BufferRef reference) const {
  switch (reference.slot) {
    case Slot::input:
      return input;
    case Slot::output:
      return output;
    case Slot::parameter:
      return parameters.at(reference.index);
    case Slot::packed:
      return packed;
    case Slot::workspace:
      return static_cast<char*>(workspace) + reference.index;
    case Slot::scalar:
      break;  // no buffer: the launch holds the value
  }
  return nullptr;
}

void check_arguments(const KernelLaunch& launch) {
  if (launch.arguments.size() > KernelLaunch::kMostArguments)
    throw TrialError("load_failed", fmt::format("{} takes {} arguments, the most is {}", launch.function,
                                                launch.arguments.size(), KernelLaunch::kMostArguments));
  if (launch.tensor_map && launch.tensor_map->argument >= launch.arguments.size())
    throw TrialError("load_failed",
                     fmt::format("{} has a tensor map of argument {}, but takes {}", launch.function,
                                 launch.tensor_map->argument, launch.arguments.size()));
}

std::vector<std::pair<std::string, Value>> KernelFamily::extra_constants(const Problem&,
                                                                         const DeviceInfo&) const {
  return {};
}

OutputTile KernelFamily::tile(const Problem&, const Configuration&) const {
  return {};
}

KernelInstance KernelFamily::instantiate(const Problem&, const Configuration&, const DeviceInfo&) const {
  throw std::logic_error(fmt::format("family {} has no source: create_builtin() serves it", name()));
}

std::unique_ptr<Executable> KernelFamily::create_builtin(const Problem&, const Configuration&,
                                                         Device&) const {
  return nullptr;
}

const SearchSpace& declared_space(const KernelFamily& family) {
  static std::mutex mutex;
  static auto& parsed = never_destroyed(std::map<std::string, SearchSpace, std::less<>>());
  const std::lock_guard lock(mutex);
  const std::string_view json = family.space_json();
  auto found = parsed.find(json);
  if (found == parsed.end()) {
    const std::string source = fmt::format("{} {} search space", to_string(family.backend()), family.name());
    found = parsed.emplace(json, SearchSpace::parse(json, source)).first;
  }
  return found->second;
}

namespace {

Names space_names(const KernelFamily& family, const Problem& problem, const DeviceInfo& device) {
  Names names;
  for (auto& [name, value] : problem_constants(problem)) names[name] = value;
  for (auto& [name, value] : device.constants()) names[name] = value;
  for (auto& [name, value] : family.extra_constants(problem, device)) names[name] = value;
  return names;
}

}  // namespace

BoundSpace bind_space(const KernelFamily& family, const Problem& problem, const DeviceInfo& device) {
  return declared_space(family).bind(space_names(family, problem, device));
}

std::optional<Configuration> default_configuration(const KernelFamily& family, const Problem& problem,
                                                   const DeviceInfo& device) {
  const Names names = space_names(family, problem, device);
  if (auto configuration = declared_space(family).valid_default(names)) return configuration;
  const BoundSpace space = declared_space(family).bind(names);
  if (space.empty()) return std::nullopt;
  return space.configuration(space.default_index());
}

std::optional<std::string> KernelFamily::violation(const Problem& problem, const Configuration& configuration,
                                                   const DeviceInfo& device) const {
  return declared_space(*this).violation(configuration, space_names(*this, problem, device));
}

}  // namespace knobwise
