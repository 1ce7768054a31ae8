#include "tuner/strategies/encoding.h"

#include <algorithm>
#include <cmath>

namespace knobwise {
namespace {

bool is_text(const Value& value) {
  return std::holds_alternative<std::string>(value);
}

bool is_integer(const Value& value) {
  return std::holds_alternative<std::int64_t>(value);
}

double number(const Value& value) {
  if (const bool* boolean = std::get_if<bool>(&value)) return *boolean ? 1 : 0;
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  return std::get<double>(value);
}

/// The largest power of two that divides the value; 0 divides by none and gives 0.
double alignment(const Value& value) {
  const auto bits = static_cast<std::uint64_t>(std::get<std::int64_t>(value));
  return static_cast<double>(bits & (0 - bits));
}

/// One row for each number: its rank among the distinct ones, scaled to [0, 1].
Eigen::MatrixXf ranks(const std::vector<double>& numbers) {
  std::vector<double> distinct = numbers;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto last = static_cast<float>(std::max<std::size_t>(distinct.size() - 1, 1));
  Eigen::MatrixXf rows(static_cast<Eigen::Index>(numbers.size()), 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto rank = std::lower_bound(distinct.begin(), distinct.end(), numbers[i]) - distinct.begin();
    rows(static_cast<Eigen::Index>(i), 0) = static_cast<float>(rank) / last;
  }
  return rows;
}

/// The features of a knob, each values x coordinates.
std::vector<Eigen::MatrixXf> features_of(const std::vector<Value>& values) {
  const auto count = static_cast<Eigen::Index>(values.size());
  if (count < 2) return {};
  if (std::any_of(values.begin(), values.end(), is_text))
    return {Eigen::MatrixXf::Identity(count, count) * std::sqrt(0.5f)};
  std::vector<double> numbers, alignments;
  for (const Value& value : values) numbers.push_back(number(value));
  if (count == 2 || !std::all_of(values.begin(), values.end(), is_integer)) return {ranks(numbers)};
  for (const Value& value : values) alignments.push_back(alignment(value));
  if (alignments == numbers) return {ranks(numbers)};
  return {ranks(numbers), ranks(alignments)};
}

}  // namespace

Encoding::Encoding(const BoundSpace& space) : space_(space) {
  for (const Knob& knob : space.knobs()) {
    Eigen::MatrixXf rows(static_cast<Eigen::Index>(knob.values.size()), 0);
    for (const Eigen::MatrixXf& feature : features_of(knob.values)) {
      rows.conservativeResize(Eigen::NoChange, rows.cols() + feature.cols());
      rows.rightCols(feature.cols()) = feature;
      feature_of_.insert(feature_of_.end(), static_cast<std::size_t>(feature.cols()), features_++);
    }
    rows_.push_back(std::move(rows));
  }
}

Eigen::RowVectorXf Encoding::encode(std::uint64_t index) const {
  const Positions positions = space_.positions(index);
  Eigen::RowVectorXf point(static_cast<Eigen::Index>(coordinates()));
  Eigen::Index at = 0;
  for (std::size_t knob = 0; knob < rows_.size(); ++knob) {
    point.segment(at, rows_[knob].cols()) = rows_[knob].row(positions[knob]);
    at += rows_[knob].cols();
  }
  return point;
}

Eigen::MatrixXf Encoding::encode(const std::vector<std::uint64_t>& indices) const {
  Eigen::MatrixXf points(static_cast<Eigen::Index>(indices.size()), static_cast<Eigen::Index>(coordinates()));
  for (std::size_t i = 0; i < indices.size(); ++i)
    points.row(static_cast<Eigen::Index>(i)) = encode(indices[i]);
  return points;
}

}  // namespace knobwise
