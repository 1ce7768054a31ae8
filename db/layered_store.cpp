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

std::optional<LayeredBest> LayeredStore::best(const std::string& problem_line, const DeviceRecord& device,
                                              const AccuracyLimits& limits,
                                              const CurrentVersions& current) const {
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const Store& store = layers_[layer];
    const auto problem_id = store.find_problem(problem_line);
    const auto device_id = store.find_device(device);
    if (!problem_id || !device_id) continue;
    BestAnswer answer = store.best(*problem_id, *device_id, limits, current);
    if (!answer.trial) continue;
    return LayeredBest{.layer = layer,
                       .trial = *answer.trial,
                       .family = store.family(answer.trial->family),
                       .environment = store.environment(answer.trial->environment),
                       .device = store.device(*device_id)};
  }
  return std::nullopt;
}

}  // namespace knobwise
