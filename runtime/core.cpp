#include "runtime/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/key_bytes.h"
#include "runtime/log.h"

namespace knobwise::runtime_detail {

AccuracyRequirement effective_accuracy(const Problem& problem, const Requirement& requirement) {
  if (requirement.accuracy) return *requirement.accuracy;
  return AccuracyRequirement::parse(problem.dtype == DType::f32   ? "allclose"
                                    : problem.dtype == DType::f16 ? "half"
                                                                  : "bf16");
}

Core::Core(DispatcherOptions options)
    : options_(std::move(options)),
      device_(open_device(options_.device)),
      code_cache_(options_.code_cache),
      verdicts_(code_cache_.folder()) {
  refresh();
}

std::pair<std::vector<Core::Layer>, std::vector<std::string>> Core::opened_layers() const {
  std::vector<Layer> layers;
  std::vector<std::string> notes;
  for (const std::filesystem::path& path : options_.databases) {
    try {
      layers.push_back({path, Store::open_to_read(path)});
      if (!layers.back().store.has_results())
        notes.push_back(fmt::format("{} holds no results yet; 'knobwise tune' adds them", path.string()));
    } catch (const std::exception& error) {
      notes.push_back(fmt::format("{}; lookups go on without it", error.what()));
    }
  }
  return {std::move(layers), std::move(notes)};
}

void Core::refresh() {
  const std::lock_guard one_at_a_time(refresh_mutex_);
  auto [layers, notes] = opened_layers();
  {
    const std::lock_guard lock(mutex_);
    layers_.swap(layers);
    notes_.swap(notes);
    choices_.begin_period();
  }
  if (options_.on_new_plan) return;
  for (const std::string& note : notes_)  // which only a refresh changes
    if (std::ranges::find(notes, note) == notes.end()) log_warning(note);
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
    const Choice* const made = decision.choice.get();
    choice = choices_.insert(std::move(decision.choice));
    if (choice != made) return choice;  // the answer of before a refresh, which was said then
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

Core::Decision Core::decide(const PlanKey& key) {
  // What verifying candidates keeps is the application's memory again, however this ends.
  const auto forget = [this](void*) {
    const std::lock_guard lock(device_mutex_);
    device_->forget_references();
  };
  const std::unique_ptr<void, decltype(forget)> references(this, forget);
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

}  // namespace knobwise::runtime_detail
