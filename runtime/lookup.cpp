// What databases and families propose for a problem, step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/family.h"
#include "runtime/core.h"
#include "runtime/distance.h"
#include "runtime/records.h"

namespace knobwise::runtime_detail {
namespace {

// How many of the nearest problems are asked before the next step.
constexpr std::size_t kNeighbours = 3;

// How many stored trials of a problem are tried where the best one does not fit the requirement.
constexpr std::size_t kRanked = 8;

ErrorMetrics worst_of(const std::vector<ErrorRecord>& errors) {
  ErrorMetrics worst;
  for (const ErrorRecord& e : errors) {
    widen(worst, {e.max_abs, e.mean_abs, e.rms, e.rel_fro, e.frac_outside, e.checked, e.nan_count});
  }
  return worst;
}

// The schema gives every trial that succeeded a time above 0; a file can be made otherwise.
double time_of(const TrialRecord& trial, const std::filesystem::path& database) {
  if (trial.timing && trial.timing->time_us > 0 && std::isfinite(trial.timing->time_us))
    return trial.timing->time_us;
  throw UserError(
      fmt::format("database '{}' has no time for trial {}, which succeeded: run 'knobwise db check'",
                  database.string(), trial.id));
}

// Whether a float64 result that is rounded once to the type meets the requirement, whatever the operands: so
// the reference needs no verification.
bool rounding_meets(const AccuracyRequirement& accuracy, DType dtype) {
  const double half_unit = dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
  return !accuracy.max_abs && (!accuracy.rel_fro || *accuracy.rel_fro >= half_unit) &&
         (!accuracy.frac_outside || dtype == DType::f32);
}

}  // namespace

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
      return defaults(key, step, notes);
  }
}

bool Core::fits(const PlanKey& key, const KernelFamily& family, const Configuration& configuration) const {
  const Problem& problem = key.problem();
  const DeviceInfo& device = device_->info();
  if (!allows(key.requirement(), configuration)) return false;
  if (family.unsupported_reason(problem, device)) return false;
  if (family.violation(problem, configuration, device)) return false;
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
      if (!fits(key, *proposal.family, description.configuration)) {
        // A requirement may leave out any number, as it should.
        if (notes && !key.requirement().max_workspace_bytes && !key.requirement().deterministic)
          notes->push_back(fmt::format("{}: the stored {} {} is none for this problem", layer.path.string(),
                                       family.name, trial.configuration));
        continue;
      }
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

std::vector<Core::Proposal> Core::defaults(const PlanKey& key, Provenance step,
                                           std::vector<std::string>& notes) {
  std::vector<Proposal> found;
  std::vector<std::string> reasons;
  const auto pass_over = [&](const KernelFamily& family, std::string_view why) {
    reasons.push_back(fmt::format("{}: {}: {}", to_string(step), family.name(), why));
  };
  for (const KernelFamily* family : families(device_->info().backend)) {
    const bool reference = family->name() == "reference";
    const Provenance kind = reference           ? Provenance::reference
                            : family->builtin() ? Provenance::vendor
                                                : Provenance::family_default;
    if (kind != step) continue;
    if (const auto reason = family->unsupported_reason(key.problem(), device_->info())) {
      pass_over(*family, *reason);
      continue;
    }
    std::optional<Configuration> configuration =
        default_configuration(*family, key.problem(), device_->info());
    if (!configuration) {
      pass_over(*family, "no configuration meets its constraints");
      continue;
    }
    Proposal proposal;
    proposal.family = family;
    proposal.verified = reference && rounding_meets(effective_accuracy(key.problem(), key.requirement()),
                                                    key.problem().dtype);
    proposal.description.configuration = std::move(*configuration);
    proposal.description.provenance = step;
    found.push_back(std::move(proposal));
  }
  if (found.empty()) std::ranges::move(reasons, std::back_inserter(notes));
  return found;
}

}  // namespace knobwise::runtime_detail
