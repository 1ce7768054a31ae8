#include <fmt/format.h>

#include <iostream>
#include <map>
#include <tuple>

#include "kernels/device.h"
#include "kernels/family.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tuner/cli/db.h"

namespace knobwise::cli {
namespace {

constexpr std::size_t kMostExamples = 20;

// The kernel of this build that a stored trial is of; null for another version.
const KernelFamily* family_of(const FamilyRecord& stored) {
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    const KernelFamily* family = find_family(backend, stored.name);
    if (family && family_record(*family) == stored) return family;
  }
  return nullptr;
}

// Looks at every configuration whose space this build can make.
class ConfigurationCheck {
 public:
  explicit ConfigurationCheck(const Store& store) : store_(store), here_(list_devices(nullptr)) {}

  void run(std::vector<std::string>& findings) {
    for (const auto& [problem, problem_record] : store_.problems()) {
      for (const auto& [device, device_record] : store_.devices()) {
        for (const TrialRecord& trial : store_.trials(problem, device))
          judge(trial, problem_record.line, device_record, findings);
      }
    }
    if (findings_ > kMostExamples) {
      findings.push_back(
          fmt::format("configurations: {} more outside their space", findings_ - kMostExamples));
    }
  }

  // Trials of other kernel sources, or of devices that are not here: their space is not known.
  std::int64_t not_judged() const { return not_judged_; }

 private:
  void judge(const TrialRecord& trial, const std::string& line, const DeviceRecord& device,
             std::vector<std::string>& findings) {
    const KernelFamily* family = family_of(store_.family(trial.family));
    const DeviceInfo* info = at_hand(device);
    if (!family || !info) {
      ++not_judged_;
      return;
    }
    try {
      const auto reason =
          space(*family, line, *info).violation(Configuration::from_json(trial.configuration));
      if (reason) add(trial, *reason, findings);
    } catch (const UserError& error) {
      add(trial, error.what(), findings);
    }
  }

  void add(const TrialRecord& trial, const std::string& reason, std::vector<std::string>& findings) {
    if (++findings_ <= kMostExamples)
      findings.push_back(
          fmt::format("configurations: trial {} {}: {}", trial.id, trial.configuration, reason));
  }

  const DeviceInfo* at_hand(const DeviceRecord& device) const {
    for (const DeviceInfo& info : here_) {
      if (same_device(device, device_record(info))) return &info;
    }
    return nullptr;
  }

  const BoundSpace& space(const KernelFamily& family, const std::string& line, const DeviceInfo& info) {
    const auto key = std::make_tuple(&family, line, &info);
    const auto known = spaces_.find(key);
    if (known != spaces_.end()) return known->second;
    return spaces_.emplace(key, bind_space(family, Problem::parse(line), info)).first->second;
  }

  const Store& store_;
  std::vector<DeviceInfo> here_;
  std::map<std::tuple<const KernelFamily*, std::string, const DeviceInfo*>, BoundSpace> spaces_;
  std::size_t findings_ = 0;
  std::int64_t not_judged_ = 0;
};

}  // namespace

int db_check(const std::vector<std::string>& arguments) {
  Options options;
  add_database(options);
  const auto variables =
      parse(arguments,
            {"db check [OPTIONS]",
             "Reads all of each database and says what is wrong: damage, references to missing rows,\n"
             "machine code that is not what was stored, unknown knobs, and values outside their space.\n"
             "Changes nothing; the exit status is 1 when anything is wrong.",
             "  knobwise db check --db tuned.db\n"},
            options);
  if (!variables) return kSuccess;
  bool sound = true;
  for (const auto& path : database_paths(*variables)) {
    const Store store = Store::open(path, Store::Mode::read_only);
    std::vector<std::string> findings = store.check();
    ConfigurationCheck configurations(store);
    try {
      configurations.run(findings);
    } catch (const UserError& error) {
      findings.push_back(error.what());
    }
    for (const std::string& finding : findings) std::cout << fmt::format("{}: {}\n", path.string(), finding);
    if (configurations.not_judged() > 0) {
      std::cout << fmt::format(
          "{}: {} trials of other kernel sources or other machines: configurations not judged\n",
          path.string(), configurations.not_judged());
    }
    if (findings.empty()) std::cout << fmt::format("{}: sound\n", path.string());
    sound = sound && findings.empty();
  }
  return sound ? kSuccess : kJobFailed;
}

}  // namespace knobwise::cli
