// Several databases as one: user over site over shipped.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "db/records.h"
#include "db/store.h"

namespace knobwise {

/// A best trial with everything that is needed to use it outside its database.
struct LayeredBest {
  std::size_t layer = 0;  ///< Index of the store that answered.
  TrialRecord trial;      ///< Its ids belong to that store.
  FamilyRecord family;
  EnvironmentRecord environment;
  DeviceRecord device;
  DeviceMatch match = DeviceMatch::same_device;  ///< How far `device` is the one that was asked for.
};

/// An ordered list of stores. The first may be writable and receives everything new; the others are only
/// read. A lookup asks them in order and takes the first answer, so that a user's own result shadows the
/// shipped one even when that is faster: it was measured on the user's machine.
///
/// Thread safety: as Store.
class LayeredStore {
 public:
  /// `layers` must not be empty (std::invalid_argument), and all but the first must be opened read-only.
  explicit LayeredStore(std::vector<Store> layers);

  std::size_t size() const { return layers_.size(); }
  const Store& layer(std::size_t index) const { return layers_.at(index); }
  /// The store that takes new rows; UserError when the first layer is read-only too.
  Store& writable();

  /// Store::best() for this problem line on the nearest device on record: an equal one in any layer, else one
  /// of equal architecture and sizes under another name, else one of the same architecture, whose
  /// configuration is a good start and whose time does not carry over. Of equally near devices, the first
  /// layer's. A layer that turns out damaged adds a line to `notes`, and the others serve.
  std::optional<LayeredBest> best(const std::string& problem_line, const DeviceRecord& device,
                                  const AccuracyLimits& limits, const CurrentVersions& current = {},
                                  std::vector<std::string>* notes = nullptr) const;

 private:
  std::vector<Store> layers_;
};

}  // namespace knobwise
