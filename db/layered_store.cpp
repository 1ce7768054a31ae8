#include "db/layered_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "search_spaces/user_error.h"

namespace knobwise {

LayeredStore::LayeredStore(std::vector<Store> layers) : layers_(std::move(layers)) {
  if (layers_.empty()) throw std::invalid_argument("a layered store needs at least one layer");
  const bool rest_read_only =
      std::all_of(layers_.begin() + 1, layers_.end(), [](const Store& store) { return store.read_only(); });
  if (!rest_read_only) throw std::invalid_argument("only the first layer of a layered store may be writable");
}

Store& LayeredStore::writable() {
  if (layers_.front().read_only()) {
    throw UserError(fmt::format("database '{}' is opened read-only: name a writable database first",
                                layers_.front().path().string()));
  }
  return layers_.front();
}

namespace {

std::optional<LayeredBest> best_on(const Store& store, std::int64_t problem,
                                   const Stored<DeviceRecord>& device, const AccuracyLimits& limits,
                                   const CurrentVersions& current) {
  const BestAnswer answer = store.best(problem, device.id, limits, current);
  if (!answer.trial) return std::nullopt;
  return LayeredBest{.trial = *answer.trial,
                     .family = store.family(answer.trial->family),
                     .environment = store.environment(answer.trial->environment),
                     .device = device.record};
}

/// The answer of one layer, from its device that is as near as `match` says.
std::optional<LayeredBest> best_at(const Store& store, const std::string& line, const DeviceRecord& device,
                                   DeviceMatch match, const AccuracyLimits& limits,
                                   const CurrentVersions& current) {
  const auto problem = store.find_problem(line);
  if (!problem) return std::nullopt;
  for (const auto& [candidate, how] : store.devices_like(device)) {
    if (how != match) continue;
    if (auto found = best_on(store, *problem, candidate, limits, current)) {
      found->match = match;
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LayeredBest> LayeredStore::best(const std::string& problem_line, const DeviceRecord& device,
                                              const AccuracyLimits& limits, const CurrentVersions& current,
                                              std::vector<std::string>* notes) const {
  std::vector<bool> damaged(layers_.size(), false);
  for (const DeviceMatch match :
       {DeviceMatch::same_device, DeviceMatch::same_hardware, DeviceMatch::same_architecture}) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      if (damaged[layer]) continue;
      try {
        if (auto found = best_at(layers_[layer], problem_line, device, match, limits, current)) {
          found->layer = layer;
          return found;
        }
      } catch (const UserError& error) {
        damaged[layer] = true;
        if (notes) notes->push_back(error.what());
      }
    }
  }
  return std::nullopt;
}

}  // namespace knobwise
