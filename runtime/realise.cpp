// From a proposal to a kernel that is loaded and known to be right.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/family.h"
#include "kernels/tensors.h"
#include "runtime/core.h"
#include "runtime/records.h"

namespace knobwise::runtime_detail {
namespace {

// Above this many operations the CPU verifies one distribution, not all: a run takes seconds there.
constexpr std::int64_t kManyOperations = 4'000'000'000;

// Whether the software that made and ran a trial's code is at hand. Machine code that is there already leaves
// the compiler out of it, which is slow to ask; otherwise another one makes other code of the same source.
bool same_software(const EnvironmentRecord& there, const DeviceInfo& device, bool stored_code) {
  if (there.driver_version != (device.backend == Backend::cuda ? device.driver_version : "")) return false;
  if (stored_code) return true;
  const EnvironmentRecord here = environment_record(device);
  return there.toolkit_version == here.toolkit_version && there.compiler == here.compiler;
}

}  // namespace

void widen(ErrorMetrics& worst, const ErrorMetrics& error) {
  worst.max_abs = std::max(worst.max_abs, error.max_abs);
  worst.mean_abs = std::max(worst.mean_abs, error.mean_abs);
  worst.rms = std::max(worst.rms, error.rms);
  worst.rel_fro = std::max(worst.rel_fro, error.rel_fro);
  worst.frac_outside = std::max(worst.frac_outside, error.frac_outside);
  worst.checked += error.checked;
  worst.nans += error.nans;
}

bool allows(const Requirement& requirement, const Configuration& configuration) {
  if (!requirement.deterministic) return true;
  const Value* deterministic = configuration.find("deterministic");
  const bool* flag = deterministic ? std::get_if<bool>(deterministic) : nullptr;
  return !flag || *flag;
}

std::unique_ptr<Executable> Core::load(const Problem& problem, const KernelFamily& family,
                                       const Configuration& configuration) {
  if (family.builtin()) {
    const std::lock_guard lock(device_mutex_);
    return family.create_builtin(problem, configuration, *device_);
  }
  const KernelInstance instance = family.instantiate(problem, configuration, device_->info());
  const CompiledCode code = code_cache_.get_or_compile(instance, device_->info());
  const std::lock_guard lock(device_mutex_);
  return device_->load(instance, code);
}

bool Core::may_run_code(const Layer& layer) const {
  if (device_->info().backend != Backend::cpu) return true;
  return std::ranges::any_of(options_.trusted, [&](const std::filesystem::path& trusted) {
    std::error_code missing;
    return std::filesystem::equivalent(trusted, layer.path, missing);
  });
}

// The machine code that the database has of a measured configuration. Null, with a note where there is a
// reason, when there is none that may and can be used: then it is compiled.
std::unique_ptr<Executable> Core::load_stored(const Problem& problem, const Proposal& proposal,
                                              std::vector<std::string>& notes) {
  const PlanDescription& description = proposal.description;
  // The code of another problem, or of other sources, is not what would be launched. Code for the processor
  // is made for its very model.
  if (description.provenance != Provenance::exact || description.stale || proposal.family->builtin())
    return nullptr;
  const bool cpu = device_->info().backend == Backend::cpu;
  if (cpu && description.device_match != to_string(DeviceMatch::same_device)) return nullptr;
  try {
    auto image = proposal.layer->store.code(proposal.trial);
    if (!image) return nullptr;
    if (!may_run_code(*proposal.layer)) {
      notes.push_back(
          fmt::format("{} has machine code for the processor, which is not run: the database is not named "
                      "as trusted",
                      proposal.layer->path.string()));
      return nullptr;
    }
    const KernelInstance instance =
        proposal.family->instantiate(problem, description.configuration, device_->info());
    const CompiledCode code{.image = std::move(*image), .resources = {}, .seconds = 0};
    const std::lock_guard lock(device_mutex_);
    return device_->load(instance, code);
  } catch (const std::exception& error) {
    notes.push_back(fmt::format("stored machine code is not used: {}", error.what()));
    return nullptr;
  }
}

// The worst error over the distributions. The output is poisoned with NaN before each run.
ErrorMetrics Core::verify(const Problem& problem, const KernelFamily& family,
                          const Configuration& configuration, Executable& executable) {
  constexpr std::uint64_t kSeed = 1;
  const std::lock_guard lock(device_mutex_);
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  const auto allocate = [&](std::size_t bytes, std::string_view purpose) {
    return memory.emplace_back(device_->allocate(bytes, purpose))->data();
  };
  Buffers buffers = allocate_tensors(problem, allocate);
  if (executable.packed_bytes() > 0) buffers.packed = allocate(executable.packed_bytes(), "packed weights");
  if (executable.workspace_bytes() > 0)
    buffers.workspace = allocate(executable.workspace_bytes(), "workspace");
  const bool slow = device_->info().backend == Backend::cpu && problem.flops() > kManyOperations;
  ErrorMetrics worst;
  for (Distribution distribution : kDistributions) {
    // Outputs near zero make the zero-mean distribution the strictest judge.
    if (slow && distribution != Distribution::normal) continue;
    fill_tensors(*device_, problem, buffers, distribution, kSeed);
    poison_output(*device_, problem, buffers);
    executable.prepare(buffers, nullptr);
    executable.run(buffers, nullptr);
    device_->synchronize();
    widen(worst, device_->verify(problem, buffers, family.tile(problem, configuration), kSeed));
  }
  return worst;
}

// The measured error, from an earlier verification of the same kernel on this machine if there was one.
ErrorMetrics Core::known_or_verified(const Problem& problem, const KernelFamily& family,
                                     const Configuration& configuration, Executable& executable) {
  const std::string key = Verdicts::key(problem, family, configuration, device_->info());
  if (const auto known = verdicts_.find(key)) return *known;
  const ErrorMetrics measured = verify(problem, family, configuration, executable);
  verdicts_.store(key, measured);
  return measured;
}

Core::Decision Core::decision(const PlanKey& key, const KernelFamily& family, PlanDescription description,
                              std::unique_ptr<Executable> executable) const {
  const Problem& problem = key.problem();
  description.problem = problem.to_string();
  description.device = device_->info().name;
  description.family = family.name();
  description.workspace_bytes = executable->workspace_bytes();
  description.packed_bytes = executable->packed_bytes();
  const std::size_t number_bytes = size_of(problem.dtype);
  std::unique_ptr<Choice> choice(
      new Choice{.hash = key.hash(),
                 .key = std::string(key.bytes()),
                 .packed = PackedDescription(description, family, known_texts(description.problem)),
                 .executable = std::move(executable),
                 .provenance = description.provenance,
                 .number_bytes = static_cast<std::uint32_t>(number_bytes),
                 .input_bytes = problem.input_extents().elements() * number_bytes,
                 .output_bytes = problem.output_extents().elements() * number_bytes});
  return {std::move(choice), std::move(description)};
}

// Compiles or builds, and verifies what the tuner has not verified for this problem. Nothing, with a note, if
// that fails.
std::optional<Core::Decision> Core::realise(const PlanKey& key, Proposal proposal,
                                            std::vector<std::string>& notes) {
  const Problem& problem = key.problem();
  PlanDescription& description = proposal.description;
  const KernelFamily& family = *proposal.family;
  const auto reject = [&](const std::string& why) {
    notes.push_back(fmt::format("{}: {} {}: {}", to_string(description.provenance), family.name(),
                                description.configuration.to_json(), why));
    return std::nullopt;
  };
  if (!allows(key.requirement(), description.configuration)) return reject("is not deterministic");
  try {
    std::unique_ptr<Executable> executable = load_stored(problem, proposal, notes);
    description.stored_code = executable != nullptr;
    const bool measured = proposal.layer != nullptr;
    const bool verified =
        proposal.verified &&
        (!measured || same_software(proposal.environment, device_->info(), description.stored_code));
    if (!executable) executable = load(problem, family, description.configuration);
    const auto limit = key.requirement().max_workspace_bytes;
    if (limit && executable->workspace_bytes() > *limit) {
      return reject(fmt::format("needs {} bytes of workspace", executable->workspace_bytes()));
    }
    if (!verified) {
      const ErrorMetrics worst = known_or_verified(problem, family, description.configuration, *executable);
      if (!effective_accuracy(problem, key.requirement()).accepts(worst)) {
        return reject(fmt::format("verified here, its error is too large: at most {:.2g}, relative {:.2g}",
                                  worst.max_abs, worst.rel_fro));
      }
      description.error = worst;
    }
    description.notes = notes;
    return decision(key, family, std::move(description), std::move(executable));
  } catch (const std::exception& error) {
    // Whatever is wrong with this candidate, the next one may serve.
    return reject(error.what());
  }
}

}  // namespace knobwise::runtime_detail
