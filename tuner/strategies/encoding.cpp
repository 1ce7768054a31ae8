#include "tuner/strategies/encoding.h"

#include <algorithm>
#include <cmath>

namespace knobwise {
namespace {

double number(const Value& value) {
  if (const bool* boolean = std::get_if<bool>(&value)) return *boolean ? 1 : 0;
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

Eigen::MatrixXf encode_values(const std::vector<Value>& values) {
  const auto count = static_cast<Eigen::Index>(values.size());
  if (count < 2) return Eigen::MatrixXf(count, 0);
  if (std::any_of(values.begin(), values.end(),
                  [](const Value& value) { return std::holds_alternative<std::string>(value); })) {
    return Eigen::MatrixXf::Identity(count, count) * std::sqrt(0.5f);
  }
  Eigen::MatrixXf rows(count, 1);
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto rank = std::count_if(values.begin(), values.end(), [&](const Value& other) {
      return number(other) < number(values[static_cast<std::size_t>(i)]);
    });
    rows(i, 0) = static_cast<float>(rank) / static_cast<float>(count - 1);
  }
  return rows;
}

}  // namespace

Encoding::Encoding(const BoundSpace& space) : space_(space) {
  for (const Knob& knob : space.knobs()) {
    rows_.push_back(encode_values(knob.values));
    const auto coordinates = static_cast<std::size_t>(rows_.back().cols());
    knob_of_.insert(knob_of_.end(), coordinates, knobs_);
    knobs_ += coordinates > 0 ? 1 : 0;
  }
}

Eigen::RowVectorXf Encoding::encode(std::uint64_t index) const {
  const Positions positions = space_.positions(index);
  Eigen::RowVectorXf point(static_cast<Eigen::Index>(dimensions()));
  Eigen::Index at = 0;
  for (std::size_t knob = 0; knob < rows_.size(); ++knob) {
    point.segment(at, rows_[knob].cols()) = rows_[knob].row(positions[knob]);
    at += rows_[knob].cols();
  }
  return point;
}

}  // namespace knobwise
