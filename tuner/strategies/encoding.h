// Configurations as points of a real space, for models.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// A number knob becomes one coordinate in [0, 1], the rank of its value: rank suits both the linear and the
/// geometric lists that knobs have. A text knob becomes one coordinate for each value, so placed that any two
/// values are 1 apart. Knobs of one value vanish. An immutable value.
class Encoding {
 public:
  explicit Encoding(const BoundSpace& space);

  /// Coordinates of a point.
  std::size_t dimensions() const { return knob_of_.size(); }
  /// Knobs with more than one value.
  std::size_t knobs() const { return knobs_; }
  /// For each coordinate the number, from 0, of the knob that it belongs to.
  const std::vector<std::size_t>& knob_of() const { return knob_of_; }

  Eigen::RowVectorXf encode(std::uint64_t index) const;

 private:
  BoundSpace space_;
  std::size_t knobs_ = 0;
  std::vector<std::size_t> knob_of_;
  std::vector<Eigen::MatrixXf> rows_;  // for each knob of the space: values x coordinates
};

}  // namespace knobwise
