#include "tuner/warm_start.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "runtime/distance.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr std::size_t kSources = 4;
constexpr std::size_t kMost = 8;  // fewer than a search would try at random before it models anything

// A problem on a device, both by their ids.
struct Source {
  double distance;
  std::int64_t problem, device;
};

// In the unit of problem_distance(): a factor of two in one dimension.
double device_distance(DeviceMatch match) {
  switch (match) {
    case DeviceMatch::same_device:
    case DeviceMatch::same_hardware:
      return 0;
    case DeviceMatch::same_architecture:
      return 1;
    case DeviceMatch::different:
      return 2;
  }
  return 2;
}

std::optional<double> distance_of(const Problem& problem, const std::string& line) {
  try {
    return problem_distance(problem, Problem::parse(line));
  } catch (const UserError&) {
    return std::nullopt;  // of a newer vocabulary
  }
}

std::vector<Source> nearest_sources(const Store& store, const WarmStartQuery& query) {
  const DeviceRecord here = device_record(query.device);
  std::vector<Source> sources;
  for (const auto& [problem, record] : store.problems()) {
    const auto distance = distance_of(query.problem, record.line);
    if (!distance) continue;
    for (const auto& [device, other] : store.devices()) {
      if (other.backend == here.backend)
        sources.push_back({*distance + device_distance(match_devices(here, other)), problem, device});
    }
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const Source& a, const Source& b) { return a.distance < b.distance; });
  return sources;
}

// Every version of the family on record.
std::set<std::int64_t> family_ids(const Store& store, const KernelFamily& family) {
  std::set<std::int64_t> ids;
  for (const auto& [id, record] : store.families()) {
    if (record.name == family.name() && record.backend == to_string(family.backend())) ids.insert(id);
  }
  return ids;
}

// Accurate trials of the family, fastest first.
std::vector<TrialRecord> ranked(const Store& store, const WarmStartQuery& query, const Source& source,
                                const std::set<std::int64_t>& families) {
  std::vector<TrialRecord> trials = store.trials(source.problem, source.device);
  std::erase_if(trials, [&](const TrialRecord& trial) {
    return !trial.timing || trial.started >= query.before || !meets(trial.errors, query.limits) ||
           !families.contains(trial.family);
  });
  std::stable_sort(trials.begin(), trials.end(), [](const TrialRecord& a, const TrialRecord& b) {
    return a.timing->time_us < b.timing->time_us;
  });
  return trials;
}

std::optional<std::uint32_t> nearest_position(const Knob& knob, const Value& wanted) {
  const auto number = [](const Value& value) -> std::optional<double> {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
    if (const auto* real = std::get_if<double>(&value)) return *real;
    return std::nullopt;
  };
  std::optional<std::uint32_t> best;
  double best_distance = 0;
  for (std::uint32_t i = 0; i < knob.values.size(); ++i) {
    if (knob.values[i] == wanted) return i;
    const auto a = number(knob.values[i]), b = number(wanted);
    if (!a || !b || (best && std::abs(*a - *b) >= best_distance)) continue;
    best = i;
    best_distance = std::abs(*a - *b);
  }
  return best;
}

std::optional<std::uint64_t> nearest_index(const BoundSpace& space, const Configuration& configuration) {
  Positions positions;
  for (const Knob& knob : space.knobs()) {
    const Value* value = configuration.find(knob.name);
    const auto position = value ? nearest_position(knob, *value) : std::nullopt;
    if (!position) return std::nullopt;
    positions.push_back(*position);
  }
  return space.nearest(positions);
}

}  // namespace

std::vector<std::uint64_t> warm_starts(const Store& store, const WarmStartQuery& query) {
  const std::set<std::int64_t> families = family_ids(store, query.family);
  if (families.empty()) return {};
  std::vector<std::vector<std::uint64_t>> lists;
  for (const Source& source : nearest_sources(store, query)) {
    if (lists.size() == kSources) break;
    std::vector<std::uint64_t> list;
    for (const TrialRecord& trial : ranked(store, query, source, families)) {
      if (list.size() == kMost) break;
      if (const auto index = nearest_index(query.space, Configuration::from_json(trial.configuration)))
        list.push_back(*index);
    }
    if (!list.empty()) lists.push_back(std::move(list));
  }
  std::vector<std::uint64_t> starts;
  for (std::size_t rank = 0; rank < kMost; ++rank) {
    for (const auto& list : lists) {
      if (rank >= list.size() || starts.size() == kMost) continue;
      if (std::find(starts.begin(), starts.end(), list[rank]) == starts.end()) starts.push_back(list[rank]);
    }
  }
  return starts;
}

}  // namespace knobwise
