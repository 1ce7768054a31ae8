// Configurations as points of a real space, for models.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// What a knob contributes are its features, each of one or more coordinates:
/// - a number knob: the rank of its value, scaled to [0, 1], which suits linear and geometric lists alike;
/// - one of integers that are not all powers of two, also the rank of the largest power of two that divides
///   the value, because hardware cares for alignment (48 is closer to 16 than to 64);
/// - a text knob: a coordinate for each value, so placed that any two values are 1 apart.
/// Knobs of one value contribute nothing. An immutable value.
class Encoding {
 public:
  explicit Encoding(const BoundSpace& space);

  std::size_t coordinates() const { return feature_of_.size(); }
  std::size_t features() const { return features_; }
  /// For each coordinate the feature, from 0, that it belongs to.
  const std::vector<std::size_t>& feature_of() const { return feature_of_; }

  Eigen::RowVectorXf encode(std::uint64_t index) const;
  /// One row for each index.
  Eigen::MatrixXf encode(const std::vector<std::uint64_t>& indices) const;

 private:
  BoundSpace space_;
  std::size_t features_ = 0;
  std::vector<std::size_t> feature_of_;
  std::vector<Eigen::MatrixXf> rows_;  // for each knob of the space: values x coordinates
};

}  // namespace knobwise
