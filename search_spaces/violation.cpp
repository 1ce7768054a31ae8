#include "search_spaces/violation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "search_spaces/datum.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

std::optional<std::string> violation_of(const Constraint& constraint, const Names& names) {
  try {
    if (constraint.expression.holds(names)) return std::nullopt;
  } catch (const UserError& error) {
    return error.what();
  }
  std::string values;
  for (const std::string& name : constraint.expression.names()) {
    values += fmt::format("{}{}={}", values.empty() ? "" : ", ", name, to_string(names.at(name)));
  }
  return fmt::format("violates `{}`{}{}: {}", constraint.expression.text(),
                     constraint.reason.empty() ? "" : ", ", constraint.reason, values);
}

}  // namespace

std::optional<std::uint32_t> position_of(const Knob& knob, const Value& value) {
  const auto found = std::find_if(knob.values.begin(), knob.values.end(),
                                  [&](const Value& candidate) { return equal(candidate, value); });
  if (found == knob.values.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - knob.values.begin());
}

std::optional<std::string> violation_of(const std::vector<Knob>& knobs,
                                        const std::vector<Constraint>& constraints, const Names& constants,
                                        const Configuration& configuration) {
  Names names = constants;
  for (const Knob& knob : knobs) {
    const Value* value = configuration.find(knob.name);
    if (value == nullptr) return fmt::format("knob `{}` is missing", knob.name);
    const std::optional<std::uint32_t> position = position_of(knob, *value);
    if (!position) return fmt::format("knob `{}` cannot be {}", knob.name, to_string(*value));
    names[knob.name] = knob.values[*position];
  }
  std::set<std::string_view> seen;
  for (const auto& [name, value] : configuration.knobs()) {
    if (std::ranges::find(knobs, name, &Knob::name) == knobs.end()) {
      return fmt::format("there is no knob `{}`", name);
    }
    if (!seen.insert(name).second) return fmt::format("knob `{}` is given twice", name);
  }
  for (const Constraint& constraint : constraints) {
    if (std::optional<std::string> text = violation_of(constraint, names)) return text;
  }
  return std::nullopt;
}

}  // namespace knobwise
