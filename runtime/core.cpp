#include "runtime/core.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "kernels/family.h"
#include "kernels/operands.h"
#include "runtime/distance.h"
#include "runtime/hash.h"
#include "runtime/records.h"

namespace knobwise::runtime_detail {
namespace {

// How many of the nearest problems are asked before the next step.
constexpr std::size_t kNeighbours = 3;

ErrorMetrics worst_of(const std::vector<ErrorRecord>& errors) {
  ErrorMetrics worst;
  for (const ErrorRecord& error : errors) {
    worst.max_abs = std::max(worst.max_abs, error.max_abs);
    worst.mean_abs = std::max(worst.mean_abs, error.mean_abs);
    worst.rms = std::max(worst.rms, error.rms);
    worst.rel_fro = std::max(worst.rel_fro, error.rel_fro);
    worst.frac_outside = std::max(worst.frac_outside, error.frac_outside);
    worst.checked += error.checked;
    worst.nans += error.nan_count;
  }
  return worst;
}

bool allows(const Requirement& requirement, const Configuration& configuration) {
  if (!requirement.deterministic) return true;
  const Value* deterministic = configuration.find("deterministic");
  const bool* flag = deterministic ? std::get_if<bool>(deterministic) : nullptr;
  return !flag || *flag;
}

}  // namespace

AccuracyRequirement effective_accuracy(const Problem& problem, const Requirement& requirement) {
  if (requirement.accuracy) return *requirement.accuracy;
  return AccuracyRequirement::parse(problem.dtype == DType::f32   ? "allclose"
                                    : problem.dtype == DType::f16 ? "half"
                                                                  : "bf16");
}

Core::Core(DispatcherOptions options)
    : options_(std::move(options)),
      device_(open_device(options_.device)),
      code_cache_(options_.code_cache.empty() ? CodeCache::default_folder() : options_.code_cache) {
  open_layers();
}

void Core::open_layers() {
  layers_.clear();
  notes_.clear();
  for (const std::filesystem::path& path : options_.databases) {
    try {
      layers_.push_back({path, Store::open(path, Store::Mode::read_only)});
    } catch (const std::exception& error) {
      notes_.push_back(error.what());
    }
  }
}

void Core::refresh() {
  const std::lock_guard lock(mutex_);
  open_layers();
  choices_.clear();
}

std::vector<std::string> Core::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

const Choice* Core::find(const Problem& problem, const Requirement& requirement) const {
  return choices_.find(hash_of(problem, requirement), problem, requirement);
}

const Choice* Core::choose(const PlanKey& key) {
  if (const Choice* choice = choices_.find(key.hash(), key.problem(), key.requirement())) return choice;
  const std::lock_guard lock(mutex_);
  // Another thread may have decided while this one waited.
  if (const Choice* choice = choices_.find(key.hash(), key.problem(), key.requirement())) return choice;
  const Choice* choice = choices_.insert(decide(key));
  if (options_.on_new_plan) {
    options_.on_new_plan(choice->description);
  } else {
    spdlog::info("knobwise: {}", choice->description.to_string());
  }
  return choice;
}

std::unique_ptr<Choice> Core::decide(const PlanKey& key) {
  std::vector<std::string> notes;
  for (Provenance step : kProvenances) {
    if (!key.requirement().allow.contains(step)) continue;
    const std::size_t before = notes.size();
    for (Proposal& proposal : proposals(key, step, notes)) {
      if (auto choice = realise(key, std::move(proposal), notes)) return choice;
    }
    if (notes.size() == before) notes.push_back(fmt::format("{}: nothing found", to_string(step)));
  }
  std::string reasons;
  for (const std::string& note : notes) reasons += "; " + note;
  throw UserError(fmt::format("no allowed step of the lookup serves '{}' on {}{}", key.problem().to_string(),
                              device_->info().name, reasons));
}

std::vector<Core::Proposal> Core::proposals(const PlanKey& key, Provenance step,
                                            std::vector<std::string>& notes) {
  switch (step) {
    case Provenance::exact:
      return exact(key, notes);
    case Provenance::nearest:
      return nearest(key);
    default:
      return defaults(key, step);
  }
}

// The best stored trial of a problem line in one database, on a device that matches well enough.
std::optional<Core::Proposal> Core::best_of(Layer& layer, const std::string& line, const PlanKey& key,
                                            DeviceMatch worst, std::vector<std::string>* notes) {
  const auto problem = layer.store.find_problem(line);
  if (!problem) return std::nullopt;
  const AccuracyLimits limits = accuracy_limits(effective_accuracy(key.problem(), key.requirement()));
  CurrentVersions current;
  if (!key.requirement().allow_stale) current.families = current_families(device_->info().backend);
  for (const auto& [device, match] : layer.store.devices_like(device_record(device_->info()))) {
    if (match > worst) continue;
    const BestAnswer answer = layer.store.best(*problem, device.id, limits, current);
    if (notes && !answer.stale.empty()) {
      notes->push_back(fmt::format("{}: {} faster results of other kernel sources are stale; tune again",
                                   layer.path.string(), answer.stale.size()));
    }
    if (!answer.trial) continue;
    const FamilyRecord family = layer.store.family(answer.trial->family);
    Proposal proposal;
    proposal.family = find_family(device_->info().backend, family.name);
    if (!proposal.family) continue;
    PlanDescription& description = proposal.description;
    description.configuration = Configuration::from_json(answer.trial->configuration);
    description.predicted_us = answer.trial->timing->time_us;
    description.error = worst_of(answer.trial->errors);
    description.database = layer.path.string();
    description.based_on = line;
    description.based_on_device = device.record.name;
    description.stale = family != family_record(*proposal.family);
    return proposal;
  }
  return std::nullopt;
}

std::vector<Core::Proposal> Core::exact(const PlanKey& key, std::vector<std::string>& notes) {
  std::vector<Proposal> found;
  const std::string line = key.problem().to_string();
  for (Layer& layer : layers_) {
    auto proposal = best_of(layer, line, key, DeviceMatch::same_hardware, &notes);
    if (!proposal) continue;
    proposal->description.provenance = Provenance::exact;
    proposal->verified = !proposal->description.stale;
    found.push_back(std::move(*proposal));
  }
  return found;
}

std::vector<Core::Proposal> Core::nearest(const PlanKey& key) {
  struct Neighbour {
    double distance;
    Layer* layer;
    std::string line;
    std::int64_t flops;
  };
  std::vector<Neighbour> neighbours;
  for (Layer& layer : layers_) {
    for (const auto& [id, record] : layer.store.problems()) {
      try {
        const Problem other = Problem::parse(record.line);
        if (const auto distance = problem_distance(key.problem(), other)) {
          neighbours.push_back({*distance, &layer, record.line, record.flops});
        }
      } catch (const UserError&) {
        // A line of a newer vocabulary cannot be near.
      }
    }
  }
  std::stable_sort(neighbours.begin(), neighbours.end(),
                   [](const auto& a, const auto& b) { return a.distance < b.distance; });
  std::vector<Proposal> found;
  for (const Neighbour& neighbour : neighbours) {
    if (found.size() == kNeighbours) break;
    auto proposal = best_of(*neighbour.layer, neighbour.line, key, DeviceMatch::same_architecture, nullptr);
    if (!proposal || proposal->family->unsupported_reason(key.problem(), device_->info())) continue;
    if (!bind_space(*proposal->family, key.problem(), device_->info())
             .contains(proposal->description.configuration))
      continue;
    proposal->description.provenance = Provenance::nearest;
    proposal->description.error.reset();
    *proposal->description.predicted_us *=
        static_cast<double>(key.problem().flops()) / static_cast<double>(neighbour.flops);
    found.push_back(std::move(*proposal));
  }
  return found;
}

std::vector<Core::Proposal> Core::defaults(const PlanKey& key, Provenance step) {
  std::vector<Proposal> found;
  for (const KernelFamily* family : families(device_->info().backend)) {
    const bool reference = family->name() == "reference";
    const Provenance kind = reference           ? Provenance::reference
                            : family->builtin() ? Provenance::vendor
                                                : Provenance::family_default;
    if (kind != step || family->unsupported_reason(key.problem(), device_->info())) continue;
    const BoundSpace space = bind_space(*family, key.problem(), device_->info());
    if (space.empty()) continue;
    Proposal proposal;
    proposal.family = family;
    proposal.verified = reference;
    proposal.description.configuration = space.configuration(space.default_index());
    proposal.description.provenance = step;
    found.push_back(std::move(proposal));
  }
  return found;
}

ErrorMetrics Core::verify(const Problem& problem, const KernelFamily& family,
                          const Configuration& configuration, Executable& executable,
                          Distribution distribution) {
  constexpr std::uint64_t kSeed = 1;
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  const auto allocate = [&](std::size_t bytes, std::string_view purpose) -> void* {
    if (bytes == 0) return nullptr;
    memory.push_back(device_->allocate(bytes, purpose));
    return memory.back()->data();
  };
  const auto filled = [&](std::int64_t elements, std::string_view purpose, int parameter) {
    void* data = allocate(static_cast<std::size_t>(elements) * size_of(problem.dtype), purpose);
    device_->fill_operand(data, problem.dtype, elements,
                          operand_fill(problem, distribution, kSeed, parameter));
    return data;
  };
  Buffers buffers;
  buffers.input = filled(problem.input_extents().elements(), "input", -1);
  int index = 0;
  for (const ParameterSpec& parameter : problem.parameters()) {
    buffers.parameters.push_back(filled(parameter.elements(), parameter.name, index++));
  }
  const std::size_t output_bytes =
      static_cast<std::size_t>(problem.output_extents().elements()) * size_of(problem.dtype);
  buffers.output = allocate(output_bytes, "output");
  buffers.packed = allocate(executable.packed_bytes(), "packed weights");
  buffers.workspace = allocate(executable.workspace_bytes(), "workspace");
  device_->fill_bytes(buffers.output, 0xFF, output_bytes);
  executable.prepare(buffers, nullptr);
  executable.run(buffers, nullptr);
  device_->synchronize();
  return device_->verify(problem, buffers, family.tile(problem, configuration), kSeed);
}

// Compiles or builds, and verifies what the tuner has not verified for this problem. Null, with a note, if
// that fails.
std::unique_ptr<Choice> Core::realise(const PlanKey& key, Proposal proposal,
                                      std::vector<std::string>& notes) {
  const Problem& problem = key.problem();
  PlanDescription& description = proposal.description;
  const KernelFamily& family = *proposal.family;
  const auto reject = [&](const std::string& why) {
    notes.push_back(fmt::format("{}: {} {}: {}", to_string(description.provenance), family.name(),
                                description.configuration.to_json(), why));
    return nullptr;
  };
  if (!allows(key.requirement(), description.configuration)) return reject("is not deterministic");
  const std::lock_guard lock(device_mutex_);
  try {
    std::unique_ptr<Executable> executable;
    if (family.builtin()) {
      executable = family.create_builtin(problem, description.configuration, *device_);
    } else {
      const KernelInstance instance = family.instantiate(problem, description.configuration, device_->info());
      executable = device_->load(instance, code_cache_.get_or_compile(instance, device_->info()));
    }
    const auto limit = key.requirement().max_workspace_bytes;
    if (limit && executable->workspace_bytes() > *limit) {
      return reject(fmt::format("needs {} bytes of workspace", executable->workspace_bytes()));
    }
    if (!proposal.verified) {
      ErrorMetrics worst;
      for (Distribution distribution : {Distribution::integers, Distribution::uniform}) {
        const ErrorMetrics metrics =
            verify(problem, family, description.configuration, *executable, distribution);
        if (!effective_accuracy(problem, key.requirement()).accepts(metrics)) {
          return reject(
              fmt::format("its error is {:.2g} (relative {:.2g})", metrics.max_abs, metrics.rel_fro));
        }
        if (metrics.max_abs >= worst.max_abs) worst = metrics;
      }
      description.error = worst;
    }
    description.problem = problem.to_string();
    description.device = device_->info().name;
    description.family = family.name();
    description.workspace_bytes = executable->workspace_bytes();
    description.packed_bytes = executable->packed_bytes();
    description.notes = notes;
    const auto bytes = [&problem](const Extents& extents) {
      return static_cast<std::size_t>(extents.elements()) * size_of(problem.dtype);
    };
    return std::make_unique<Choice>(Choice{key, std::move(description), std::move(executable),
                                           bytes(problem.input_extents()), bytes(problem.output_extents())});
  } catch (const TrialError& error) {
    return reject(error.what());
  } catch (const UserError& error) {
    return reject(error.what());
  }
}

}  // namespace knobwise::runtime_detail
