#include "runtime/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/family.h"
#include "kernels/tensors.h"
#include "runtime/distance.h"
#include "runtime/key_bytes.h"
#include "runtime/log.h"
#include "runtime/records.h"

namespace knobwise::runtime_detail {
namespace {

// How many of the nearest problems are asked before the next step.
constexpr std::size_t kNeighbours = 3;

// How many stored trials of a problem are tried where the best one does not fit the requirement.
constexpr std::size_t kRanked = 8;
// Above this many operations the CPU verifies one distribution, not all: a run takes seconds there.
constexpr std::int64_t kManyOperations = 4'000'000'000;

void widen(ErrorMetrics& worst, const ErrorMetrics& error) {
  worst.max_abs = std::max(worst.max_abs, error.max_abs);
  worst.mean_abs = std::max(worst.mean_abs, error.mean_abs);
  worst.rms = std::max(worst.rms, error.rms);
  worst.rel_fro = std::max(worst.rel_fro, error.rel_fro);
  worst.frac_outside = std::max(worst.frac_outside, error.frac_outside);
  worst.checked += error.checked;
  worst.nans += error.nans;
}

ErrorMetrics worst_of(const std::vector<ErrorRecord>& errors) {
  ErrorMetrics worst;
  for (const ErrorRecord& e : errors) {
    widen(worst, {e.max_abs, e.mean_abs, e.rms, e.rel_fro, e.frac_outside, e.checked, e.nan_count});
  }
  return worst;
}

// Whether the software that made and ran a trial's code is at hand. Machine code that is there already leaves
// the compiler out of it, which is slow to ask; otherwise another one makes other code of the same source.
bool same_software(const EnvironmentRecord& there, const DeviceInfo& device, bool stored_code) {
  if (there.driver_version != (device.backend == Backend::cuda ? device.driver_version : "")) return false;
  if (stored_code) return true;
  const EnvironmentRecord here = environment_record(device);
  return there.toolkit_version == here.toolkit_version && there.compiler == here.compiler;
}

// The schema gives every trial that succeeded a time above 0; a file can be made otherwise.
double time_of(const TrialRecord& trial, const std::filesystem::path& database) {
  if (trial.timing && trial.timing->time_us > 0 && std::isfinite(trial.timing->time_us))
    return trial.timing->time_us;
  throw UserError(
      fmt::format("database '{}' has no time for trial {}, which succeeded: run 'knobwise db check'",
                  database.string(), trial.id));
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
      code_cache_(options_.code_cache.empty() ? CodeCache::default_folder() : options_.code_cache),
      verdicts_(code_cache_.folder()) {
  open_layers();
}

void Core::open_layers() {
  layers_.clear();
  notes_.clear();
  for (const std::filesystem::path& path : options_.databases) {
    try {
      layers_.push_back({path, Store::open(path, Store::Mode::read_only)});
      if (!layers_.back().store.has_results()) {
        notes_.push_back(fmt::format("{} holds no results yet; 'knobwise tune' adds them", path.string()));
      }
    } catch (const std::exception& error) {
      notes_.push_back(fmt::format("{}; lookups go on without it", error.what()));
    }
  }
  if (options_.on_new_plan) return;
  for (const std::string& note : notes_) log_warning(note);
}

void Core::refresh() {
  const std::lock_guard lock(mutex_);
  open_layers();
  choices_.begin_period();
}

std::vector<std::string> Core::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

const Choice* Core::find(const Problem& problem, const Requirement& requirement) const {
  KeyBytes bytes;
  append_key(problem, requirement, bytes);
  const std::string_view key(bytes.data(), bytes.size());
  return choices_.find(hash_of(key), key);
}

const Choice* Core::find(const PlanKey& key) const {
  return choices_.find(key.hash(), key.bytes());
}

const Choice* Core::choose(const PlanKey& key) {
  if (const Choice* choice = find(key)) return choice;
  const Choice* choice = nullptr;
  Decision decision;
  {
    const std::lock_guard lock(mutex_);
    // Another thread may have decided while this one waited.
    if (const Choice* decided = find(key)) return decided;
    decision = decide(key);
    choice = choices_.insert(std::move(decision.choice));
  }
  if (options_.on_new_plan) {
    options_.on_new_plan(decision.description);
  } else {
    log_info(decision.description.to_string());
  }
  return choice;
}

KnownTexts Core::known_texts(std::string problem_line) const {
  KnownTexts known = {std::move(problem_line), device_->info().name, ""};
  for (const DeviceMatch match :
       {DeviceMatch::same_device, DeviceMatch::same_hardware, DeviceMatch::same_architecture})
    known.emplace_back(to_string(match));
  for (const std::filesystem::path& path : options_.databases) known.push_back(path.string());
  return known;
}

PlanDescription Core::describe(const Choice& choice) const {
  const Problem problem = problem_of_key(choice.key);
  PlanDescription description =
      choice.packed.unpack(device_->info().backend, known_texts(problem.to_string()));
  description.provenance = choice.provenance;
  description.workspace_bytes = choice.executable->workspace_bytes();
  description.packed_bytes = choice.executable->packed_bytes();
  return description;
}

// Does what reads a database, as of one moment. One that cannot be read, whatever is wrong with it, costs a
// note and is left alone for the rest of the decision: the others serve.
template <class Read>
void Core::read(Layer& layer, std::vector<std::string>& notes, Read read) {
  if (layer.failed) return;
  try {
    layer.store.at_one_moment(read);
  } catch (const std::exception& damage) {
    layer.failed = true;
    notes.push_back(damage.what());
  }
}

Core::Decision Core::decide(const PlanKey& key) {
  for (Layer& layer : layers_) layer.failed = false;
  std::vector<std::string> notes;
  for (Provenance step : kProvenances) {
    if (!key.requirement().allow.contains(step)) continue;
    const std::size_t before = notes.size();
    for (Proposal& proposal : proposals(key, step, notes)) {
      if (auto decision = realise(key, std::move(proposal), notes)) return std::move(*decision);
    }
    if (notes.size() == before) notes.push_back(fmt::format("{}: nothing found", to_string(step)));
  }
  std::string reasons;
  if (key.requirement().allow.bits() == 0) reasons = "; the requirement allows none, allow=all does";
  for (const std::string& note : notes) reasons += "; " + note;
  throw UserError(fmt::format("no allowed step of the lookup serves '{}' on {}{}", key.problem().to_string(),
                              device_->info().name, reasons));
}

bool Core::is_current(const FamilyRecord& record) const {
  const KernelFamily* family = find_family(device_->info().backend, record.name);
  return family && family_record(*family) == record;
}

std::vector<Core::Proposal> Core::proposals(const PlanKey& key, Provenance step,
                                            std::vector<std::string>& notes) {
  switch (step) {
    case Provenance::exact:
      return exact(key, notes);
    case Provenance::nearest:
      return nearest(key, notes);
    default:
      return defaults(key, step);
  }
}

bool Core::fits(const PlanKey& key, const KernelFamily& family, const Configuration& configuration) const {
  const Problem& problem = key.problem();
  const DeviceInfo& device = device_->info();
  if (!allows(key.requirement(), configuration)) return false;
  if (family.unsupported_reason(problem, device)) return false;
  if (space_violation(family, problem, device, configuration)) return false;
  // What a built-in needs shows when it is built.
  const auto limit = key.requirement().max_workspace_bytes;
  return !limit || family.builtin() ||
         family.instantiate(problem, configuration, device).workspace_bytes <= *limit;
}

// The stored trials of a problem on a device that meet the accuracy, fastest first: the best one alone unless
// the requirement asks for more than speed and accuracy, which the database does not judge.
std::vector<TrialRecord> Core::ranked(const Store& store, std::int64_t problem, std::int64_t device,
                                      const PlanKey& key, const Layer& layer,
                                      std::vector<std::string>* notes) {
  const Requirement& requirement = key.requirement();
  const AccuracyLimits limits = accuracy_limits(effective_accuracy(key.problem(), requirement));
  const auto current = [&](const TrialRecord& trial) {
    return requirement.allow_stale || is_current(store.family(trial.family));
  };
  BestAnswer answer = store.best(problem, device, limits);
  if (answer.trial && !current(*answer.trial)) {
    // Only families that come first are asked their version: a vendor's library would have to be loaded for
    // it.
    std::vector<FamilyRecord> families;
    for (Stored<FamilyRecord>& family : store.families()) families.push_back(std::move(family.record));
    do {
      std::erase(families, store.family(answer.trial->family));
      answer = store.best(problem, device, limits, families);
    } while (answer.trial && !current(*answer.trial));
  }
  if (notes && !answer.stale.empty()) {
    notes->push_back(
        fmt::format("{}: {} faster results are stale, measured with other kernel sources; tune again",
                    layer.path.string(), answer.stale.size()));
  }
  if (!answer.trial) return {};
  if (!requirement.max_workspace_bytes && !requirement.deterministic) return {std::move(*answer.trial)};
  std::vector<TrialRecord> trials = store.trials(problem, device);
  std::erase_if(trials, [&](const TrialRecord& trial) {
    return trial.status != TrialStatus::ok || !meets(trial.errors, limits) || !current(trial);
  });
  std::ranges::stable_sort(trials, {}, [&](const TrialRecord& trial) { return time_of(trial, layer.path); });
  return trials;
}

// What a database holds of a problem line on devices that match well enough, for use on the key's problem.
std::vector<Core::Proposal> Core::stored(Layer& layer, const std::string& line, const PlanKey& key,
                                         DeviceMatch nearest, DeviceMatch farthest,
                                         std::vector<std::string>* notes) {
  std::vector<Proposal> found;
  const Store& store = layer.store;
  const auto problem = store.find_problem(line);
  if (!problem) return found;
  for (const auto& [device, match] : store.devices_like(device_record(device_->info()))) {
    if (match < nearest || match > farthest) continue;
    for (const TrialRecord& trial : ranked(store, *problem, device.id, key, layer, notes)) {
      if (found.size() == kRanked) return found;
      const FamilyRecord family = store.family(trial.family);
      Proposal proposal;
      proposal.family = find_family(device_->info().backend, family.name);
      if (!proposal.family) continue;
      PlanDescription& description = proposal.description;
      description.configuration = Configuration::from_json(trial.configuration);
      if (!fits(key, *proposal.family, description.configuration)) continue;
      description.predicted_us = time_of(trial, layer.path);
      description.error = worst_of(trial.errors);
      description.database = layer.path.string();
      description.based_on = line;
      description.based_on_device = device.record.name;
      description.device_match = to_string(match);
      description.stale = family != family_record(*proposal.family);
      proposal.verified = !description.stale;  // other sources make other code than the tuner verified
      proposal.environment = store.environment(trial.environment);
      proposal.layer = &layer;
      proposal.trial = trial.id;
      found.push_back(std::move(proposal));
    }
    if (!found.empty()) return found;
  }
  return found;
}

std::vector<Core::Proposal> Core::exact(const PlanKey& key, std::vector<std::string>& notes) {
  std::vector<Proposal> found;
  const std::string line = key.problem().to_string();
  // The very device in any layer comes before its twin under another name.
  for (const DeviceMatch match : {DeviceMatch::same_device, DeviceMatch::same_hardware}) {
    for (Layer& layer : layers_) {
      read(layer, notes, [&] {
        for (Proposal& proposal : stored(layer, line, key, match, match, &notes)) {
          proposal.description.provenance = Provenance::exact;
          found.push_back(std::move(proposal));
        }
      });
    }
  }
  return found;
}

std::vector<Core::Proposal> Core::nearest(const PlanKey& key, std::vector<std::string>& notes) {
  struct Neighbour {
    double distance;
    Layer* layer;
    std::string line;
    std::int64_t flops;
  };
  std::vector<Neighbour> neighbours;
  const auto consider = [&](Layer& layer, const std::string& line) {
    try {
      const Problem other = Problem::parse(line);
      if (const auto distance = problem_distance(key.problem(), other))
        neighbours.push_back({*distance, &layer, line, other.flops()});
    } catch (const UserError&) {
      // A line of a newer vocabulary cannot be near.
    }
  };
  for (Layer& layer : layers_) {
    read(layer, notes, [&] {
      for (const auto& [id, record] : layer.store.problems()) consider(layer, record.line);
    });
  }
  std::stable_sort(neighbours.begin(), neighbours.end(),
                   [](const auto& a, const auto& b) { return a.distance < b.distance; });
  std::vector<Proposal> found;
  for (const Neighbour& neighbour : neighbours) {
    if (found.size() == kNeighbours) break;
    std::vector<Proposal> proposals;
    read(*neighbour.layer, notes, [&] {
      proposals = stored(*neighbour.layer, neighbour.line, key, DeviceMatch::same_device,
                         DeviceMatch::same_architecture, nullptr);
    });
    if (proposals.empty()) continue;
    Proposal& proposal = proposals.front();
    proposal.verified = false;
    proposal.description.provenance = Provenance::nearest;
    *proposal.description.predicted_us *=
        static_cast<double>(key.problem().flops()) / static_cast<double>(neighbour.flops);
    found.push_back(std::move(proposal));
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
    description.problem = problem.to_string();
    description.device = device_->info().name;
    description.family = family.name();
    description.workspace_bytes = executable->workspace_bytes();
    description.packed_bytes = executable->packed_bytes();
    description.notes = notes;
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
    return Decision{std::move(choice), std::move(description)};
  } catch (const std::exception& error) {
    // Whatever is wrong with this candidate, the next one may serve.
    return reject(error.what());
  }
}

}  // namespace knobwise::runtime_detail
