// The values that knobs take.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace knobwise {

/// A knob's value: boolean, integer, real or text, as search-space files write them.
using Value = std::variant<bool, std::int64_t, double, std::string>;

/// Canonical text of a value: `true`, `16`, `0.5` (shortest that reads back the same), `fp32` (no quotes).
std::string to_string(const Value& value);

/// One choice for every knob, in the order of the search space.
///
/// A value type; equality compares names, order and values.
class Configuration {
 public:
  Configuration() = default;
  explicit Configuration(std::vector<std::pair<std::string, Value>> knobs) : knobs_(std::move(knobs)) {}

  const std::vector<std::pair<std::string, Value>>& knobs() const { return knobs_; }
  bool empty() const { return knobs_.empty(); }

  /// Null if there is no such knob.
  const Value* find(std::string_view name) const;

  /// The knob as an integer (a boolean counts as 0 or 1); throws std::out_of_range naming the knob when it is
  /// absent or not integral.
  std::int64_t integer(std::string_view name) const;
  /// The knob as text; throws std::out_of_range naming the knob when it is absent or not text.
  const std::string& text(std::string_view name) const;

  /// Canonical JSON object in knob order, for example {"tile_w":16,"precision":"fp32"}: the form stored in
  /// databases and used as a key.
  std::string to_json() const;
  /// Inverse of to_json; throws UserError on text that is not a flat JSON object of scalars.
  static Configuration from_json(std::string_view json);

  bool operator==(const Configuration&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> knobs_;
};

}  // namespace knobwise
