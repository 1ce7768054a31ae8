// A search space as its file declares it: knobs and constraints, before a problem and a device are chosen.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/bound_space.h"
#include "search_spaces/expression.h"

namespace knobwise {

/// A knob as declared. Values are expressions over the constants, so that they may depend on problem and
/// device.
struct KnobDeclaration {
  enum class Type { any, integer, real, boolean, text };

  std::string name;
  Type type = Type::any;           ///< what the values are converted to; `any` leaves them as they are
  std::vector<Expression> values;  ///< each gives one value or a list; together, in order, the knob's values
  std::optional<Expression> default_value;
};

/// What every valid configuration meets: an expression over knobs and constants.
struct Constraint {
  Expression expression;
  std::string reason;  ///< why, for people; may be empty
};

/// Knobs and constraints in the autotuning community's T1 format (General / ConfigurationSpace /
/// KernelSpecification).
///
/// An immutable value; any number of threads may use one.
class SearchSpace {
 public:
  /// Reads T1 JSON. `source` names the text in messages: a file name. Throws UserError for JSON that is not a
  /// T1 space, a name used twice, a knob without values, an expression that does not parse.
  ///
  /// Wider than the published schema, as published files are: a key may be written in any case, Conditions
  /// may be missing, Values may be an expression, a list or a single value. A condition may carry a "Reason".
  static SearchSpace parse(std::string_view json, const std::string& source);
  /// parse() on the content of a file.
  static SearchSpace load(const std::string& path);

  /// A space written in code; throws as parse() does.
  SearchSpace(std::string name, std::vector<KnobDeclaration> knobs, std::vector<Constraint> constraints);

  /// General.BenchmarkName, else KernelSpecification.KernelName, else the source.
  const std::string& name() const { return name_; }
  const std::vector<KnobDeclaration>& knobs() const { return knobs_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  /// The file's KernelSpecification as it stands; null if it has none.
  const nlohmann::json& kernel_specification() const { return *kernel_specification_; }

  /// Finds the valid configurations, given the constants (problem dimensions, device limits) that values and
  /// constraints use as names. Unused constants are ignored.
  ///
  /// Each constraint is checked as soon as its knobs are chosen, so the cost follows the partial
  /// configurations that survive, never the product of the knobs. A configuration that one constraint
  /// excludes is excluded even if another cannot be evaluated for it, so that `b % a == 0` may rely on `a !=
  /// 0`; operands of `and` and links of chained comparisons count as constraints of their own here. The
  /// result may be empty(). Throws UserError for a name that is neither knob nor constant, a knob named like
  /// a constant, a list without values, an expression that cannot be evaluated (division by zero), more than
  /// 2^64-1 valid configurations.
  BoundSpace bind(const Names& constants = {}) const;

  /// bind(constants).violation(configuration), at the cost of evaluating each constraint once: the valid
  /// configurations are not looked for.
  std::optional<std::string> violation(const Configuration& configuration, const Names& constants = {}) const;

  /// The configuration of every knob's default; nothing if that is not valid. At the cost of violation().
  std::optional<Configuration> valid_default(const Names& constants = {}) const;

 private:
  void validate() const;
  Knob bind_knob(const KnobDeclaration& declaration, const Names& constants) const;
  std::uint32_t bind_default(const KnobDeclaration& declaration, const Knob& knob,
                             const Names& constants) const;

  std::string name_;
  std::string source_;
  std::vector<KnobDeclaration> knobs_;
  std::vector<Constraint> constraints_;
  std::shared_ptr<const nlohmann::json> kernel_specification_;
};

}  // namespace knobwise
