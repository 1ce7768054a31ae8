// The part of a dispatcher that its plans keep alive: device, databases, code and choices.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/store.h"
#include "include/knobwise/dispatcher.h"
#include "kernels/code_cache.h"
#include "kernels/device.h"
#include "runtime/choice_table.h"
#include "runtime/verdicts.h"

namespace knobwise::runtime_detail {

/// Decides which kernel serves a problem. Thread-safe: a miss is decided under one lock, a hit takes none.
class Core {
 public:
  explicit Core(DispatcherOptions options);

  /// The choice for a key; decided now if it is asked for the first time. Throws UserError if no allowed step
  /// answers.
  const Choice* choose(const PlanKey& key);
  /// Null for one that is not decided yet. No lock, no allocation.
  const Choice* find(const Problem& problem, const Requirement& requirement) const;
  const Choice* find(const PlanKey& key) const;

  /// Thread-safe.
  PlanDescription describe(const Choice& choice) const;

  /// Lookups go on meanwhile, in what was open before.
  void refresh();
  std::vector<std::string> notes() const;
  const DeviceInfo& info() const { return device_->info(); }

  /// Device calls that are not runs happen under this lock.
  std::mutex& device_mutex() { return device_mutex_; }
  Device& device() { return *device_; }

 private:
  struct Layer {
    std::filesystem::path path;
    Store store;
    bool failed = false;  // to be read, in this decision
  };
  // A configuration to try, and what is known of it.
  struct Proposal {
    const KernelFamily* family = nullptr;
    PlanDescription description;
    bool verified = false;  // by the tuner, for this problem, as it would be made under `environment`
    EnvironmentRecord environment;
    // Where its machine code may be; it was verified as it is there.
    Layer* layer = nullptr;
    std::int64_t trial = 0;
  };

  // A choice that is not published yet, and its description.
  struct Decision {
    std::unique_ptr<Choice> choice;
    PlanDescription description;
  };

  KnownTexts known_texts(std::string problem_line) const;
  // The databases as they are now, and what there is to say of them.
  std::pair<std::vector<Layer>, std::vector<std::string>> opened_layers() const;
  Decision decide(const PlanKey& key);

  // lookup.cpp
  std::vector<Proposal> proposals(const PlanKey& key, Provenance step, std::vector<std::string>& notes);
  std::vector<Proposal> exact(const PlanKey& key, std::vector<std::string>& notes);
  std::vector<Proposal> nearest(const PlanKey& key, std::vector<std::string>& notes);
  std::vector<Proposal> defaults(const PlanKey& key, Provenance step, std::vector<std::string>& notes);
  template <class Read>
  void read(Layer& layer, std::vector<std::string>& notes, Read read);
  std::vector<Proposal> stored(Layer& layer, const std::string& line, const PlanKey& key, DeviceMatch nearest,
                               DeviceMatch farthest, std::vector<std::string>* notes);
  std::vector<TrialRecord> ranked(const Store& store, std::int64_t problem, std::int64_t device,
                                  const PlanKey& key, const Layer& layer, std::vector<std::string>* notes);
  bool is_current(const FamilyRecord& record) const;
  bool fits(const PlanKey& key, const KernelFamily& family, const Configuration& configuration) const;

  // realise.cpp
  std::optional<Decision> realise(const PlanKey& key, Proposal proposal, std::vector<std::string>& notes);
  Decision decision(const PlanKey& key, const KernelFamily& family, PlanDescription description,
                    std::unique_ptr<Executable> executable) const;
  std::unique_ptr<Executable> load(const Problem& problem, const KernelFamily& family,
                                   const Configuration& configuration);
  std::unique_ptr<Executable> load_stored(const Problem& problem, const Proposal& proposal,
                                          std::vector<std::string>& notes);
  bool may_run_code(const Layer& layer) const;
  ErrorMetrics known_or_verified(const Problem& problem, const KernelFamily& family,
                                 const Configuration& configuration, Executable& executable);
  ErrorMetrics verify(const Problem& problem, const KernelFamily& family, const Configuration& configuration,
                      Executable& executable);

  DispatcherOptions options_;
  std::unique_ptr<Device> device_;
  CodeCache code_cache_;
  Verdicts verdicts_;  // beside the code
  std::mutex device_mutex_;
  std::mutex refresh_mutex_;  // taken before mutex_
  mutable std::mutex mutex_;  // layers, notes, and deciding
  std::vector<Layer> layers_;
  std::vector<std::string> notes_;
  ChoiceTable choices_;
};

/// The requirement's accuracy, or what the problem's type can hold.
AccuracyRequirement effective_accuracy(const Problem& problem, const Requirement& requirement);

/// Whether the configuration is deterministic enough for the requirement.
bool allows(const Requirement& requirement, const Configuration& configuration);

/// Makes every metric of `worst` the worse one; counts add up.
void widen(ErrorMetrics& worst, const ErrorMetrics& error);

}  // namespace knobwise::runtime_detail
