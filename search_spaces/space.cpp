#include "search_spaces/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "search_spaces/bound_space_data.h"
#include "search_spaces/program.h"
#include "search_spaces/user_error.h"
#include "search_spaces/violation.h"

namespace knobwise {
namespace {

using Type = KnobDeclaration::Type;

/// Runs `action`; what it finds wrong with an expression is reported with the place of the expression.
template <class Action>
auto at_place(const std::string& place, Action action) {
  try {
    return action();
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", place, error.what()), error.text(), error.offset(), error.length());
  }
}

bool is_identifier(const std::string& name) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), is_word) &&
         Expression::parse(name).names() == std::vector{name};
}

void check_name(const std::string& name, const std::string& source) {
  const auto fail = [&] {
    throw UserError(fmt::format(
        "{}: `{}` cannot name a knob; use a letter, then letters, digits and _, no keyword", source, name));
  };
  try {
    if (!is_identifier(name)) fail();
  } catch (const UserError&) {
    fail();
  }
}

[[noreturn]] void fail_conversion(const Value& value, const char* type) {
  throw UserError(fmt::format("the value {} is not {}", to_string(value), type));
}

Value to_integer(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return std::int64_t{*truth ? 1 : 0};
  if (const double* real = std::get_if<double>(&value)) {
    if (std::trunc(*real) != *real || std::abs(*real) >= 0x1p63) fail_conversion(value, "an integer");
    return static_cast<std::int64_t>(*real);
  }
  if (std::holds_alternative<std::string>(value)) fail_conversion(value, "an integer");
  return value;
}

Value to_real(const Value& value) {
  if (std::holds_alternative<std::string>(value)) fail_conversion(value, "a number");
  return view(value).as_real();
}

Value to_boolean(const Value& value) {
  if (equal(value, true)) return true;
  if (equal(value, false)) return false;
  fail_conversion(value, "true or false");
}

Value converted(const Value& value, Type type) {
  const double* real = std::get_if<double>(&value);
  if (real != nullptr && !std::isfinite(*real)) fail_conversion(value, "finite");
  switch (type) {
    case Type::integer:
      return to_integer(value);
    case Type::real:
      return to_real(value);
    case Type::boolean:
      return to_boolean(value);
    case Type::text:
      return to_string(value);
    case Type::any:
      break;
  }
  return value;
}

/// Hashes alike what is equal as in Python.
struct ValueHash {
  std::size_t operator()(const Value& value) const {
    const std::string* text = std::get_if<std::string>(&value);
    return text ? std::hash<std::string>()(*text) : std::hash<double>()(view(value).as_real());
  }
};
struct ValueEqual {
  bool operator()(const Value& left, const Value& right) const { return equal(left, right); }
};

Knob bind_values(const KnobDeclaration& declaration, const Names& constants) {
  Knob knob;
  knob.name = declaration.name;
  std::unordered_set<Value, ValueHash, ValueEqual> known;
  for (const Expression& expression : declaration.values) {
    for (const Value& raw : expression.evaluate_list(constants)) {
      const Value value = converted(raw, declaration.type);
      if (known.insert(value).second) knob.values.push_back(value);
    }
  }
  if (knob.values.empty()) throw UserError("the list of values is empty; give at least one");
  return knob;
}

// A number that is not in the list, because the list depends on the problem, stands for the value nearest to
// it.
std::uint32_t default_position(const KnobDeclaration& declaration, const Knob& knob, const Names& constants) {
  if (!declaration.default_value) return 0;
  const Value wanted = converted(declaration.default_value->evaluate(constants), declaration.type);
  std::uint32_t best = 0;
  double best_distance = INFINITY;
  for (std::uint32_t i = 0; i < knob.values.size(); ++i) {
    const Datum candidate = view(knob.values[i]);
    if (equal(candidate, view(wanted))) return i;
    if (!candidate.is_number() || !view(wanted).is_number()) continue;
    const double distance = std::abs(candidate.as_real() - view(wanted).as_real());
    if (distance < best_distance) {
      best = i;
      best_distance = distance;
    }
  }
  if (std::isfinite(best_distance)) return best;
  throw UserError(fmt::format("the default {} is not among the values", to_string(wanted)));
}

/// Compiles constraints over knobs and constants; a knob with one value is a constant too.
class ConstraintCompiler {
 public:
  ConstraintCompiler(const std::vector<Knob>& knobs, const Names& constants)
      : knobs_(knobs), constants_(constants) {}

  /// Also rejects unknown names in parts that are never evaluated.
  void check_names(const Expression& expression) const {
    for (const std::string& name : expression.names()) {
      if (resolve(name)) continue;
      const SyntaxTree& tree = expression.tree();
      const auto node = std::find_if(tree.nodes.begin(), tree.nodes.end(), [&](const SyntaxNode& candidate) {
        return candidate.operation == Operation::name && candidate.name() == name;
      });
      throw expression_error(
          fmt::format("unknown name `{}`; it is neither a knob nor given by the problem or device", name),
          tree.text, node->offset, node->length);
    }
  }

  std::vector<Program> compile(const std::vector<Constraint>& constraints, bool split) const {
    const Resolver resolver = [this](std::string_view name) { return resolve(name); };
    std::vector<Program> programs;
    for (const Constraint& constraint : constraints) {
      if (split) {
        std::vector<Program> parts = Program::compile_conjuncts(constraint.expression, resolver);
        std::move(parts.begin(), parts.end(), std::back_inserter(programs));
      } else {
        programs.push_back(Program::compile(constraint.expression, resolver));
      }
    }
    return programs;
  }

 private:
  std::optional<Meaning> resolve(std::string_view name) const {
    for (std::uint32_t i = 0; i < knobs_.size(); ++i) {
      if (knobs_[i].name == name)
        return knobs_[i].values.size() == 1 ? Meaning(knobs_[i].values[0]) : Meaning(i);
    }
    const auto constant = constants_.find(name);
    if (constant == constants_.end()) return std::nullopt;
    return constant->second;
  }

  const std::vector<Knob>& knobs_;
  const Names& constants_;
};

DecisionDiagram build_diagram(const std::vector<Knob>& knobs, const std::vector<Constraint>& constraints,
                              const ConstraintCompiler& compiler) {
  try {
    return DecisionDiagram(solve(knobs, compiler.compile(constraints, true), Memory::parts));
  } catch (const OperationError&) {
  } catch (const UserError& error) {
    if (error.text().empty()) throw;
  }
  // In parts, `a != 0 and b % a == 0` may be evaluated where its beginning would have guarded its end.
  return DecisionDiagram(solve(knobs, compiler.compile(constraints, false), Memory::knobs));
}

std::vector<std::vector<std::uint32_t>> used_positions(const DecisionDiagram& diagram, std::size_t knobs) {
  std::vector<std::vector<std::uint32_t>> used(knobs);
  for (const DecisionDiagram::Layer& layer : diagram.layers()) {
    std::vector<std::uint32_t>& positions = used[layer.knob];
    std::vector<bool> is_used;
    for (const DecisionDiagram::Edge& edge : layer.edges) {
      if (edge.position >= is_used.size()) is_used.resize(edge.position + 1);
      is_used[edge.position] = true;
    }
    for (std::uint32_t i = 0; i < is_used.size(); ++i) {
      if (is_used[i]) positions.push_back(i);
    }
  }
  return used;
}

}  // namespace

std::string BoundSpace::Data::why_empty() const {
  const ConstraintCompiler compiler(knobs, constants);
  std::size_t count = 1;
  const auto leaves_some = [&] {
    const std::vector<Constraint> first(constraints.begin(),
                                        constraints.begin() + static_cast<std::ptrdiff_t>(count));
    try {
      return build_diagram(knobs, first, compiler).size() > 0;
    } catch (const UserError&) {
      return true;  // too many to count, or what cannot be evaluated is left for a later constraint to
                    // exclude
    }
  };
  while (count < constraints.size() && leaves_some()) ++count;
  const Constraint& culprit = constraints[count - 1];
  return fmt::format("condition {} `{}`{}{} excludes all that the conditions before it leave", count,
                     culprit.expression.text(), culprit.reason.empty() ? "" : ", ", culprit.reason);
}

SearchSpace::SearchSpace(std::string name, std::vector<KnobDeclaration> knobs,
                         std::vector<Constraint> constraints)
    : name_(std::move(name)),
      source_(name_),
      knobs_(std::move(knobs)),
      constraints_(std::move(constraints)),
      kernel_specification_(std::make_shared<const nlohmann::json>()) {
  validate();
}

void SearchSpace::validate() const {
  if (knobs_.empty()) throw UserError(fmt::format("{}: the space declares no knobs", source_));
  for (std::size_t i = 0; i < knobs_.size(); ++i) {
    check_name(knobs_[i].name, source_);
    if (knobs_[i].values.empty()) {
      throw UserError(fmt::format("{}: knob `{}`: the list of values is empty; give at least one", source_,
                                  knobs_[i].name));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (knobs_[i].name != knobs_[j].name) continue;
      throw UserError(fmt::format("{}: knob `{}` is declared twice, as number {} and {}; rename one", source_,
                                  knobs_[i].name, j + 1, i + 1));
    }
  }
}

Knob SearchSpace::bind_knob(const KnobDeclaration& declaration, const Names& constants) const {
  return at_place(fmt::format("{}: knob `{}`", source_, declaration.name), [&] {
    if (constants.contains(declaration.name))
      throw UserError("a dimension or device limit has the same name; rename the knob");
    return bind_values(declaration, constants);
  });
}

std::uint32_t SearchSpace::bind_default(const KnobDeclaration& declaration, const Knob& knob,
                                        const Names& constants) const {
  return at_place(fmt::format("{}: knob `{}`", source_, declaration.name),
                  [&] { return default_position(declaration, knob, constants); });
}

BoundSpace SearchSpace::bind(const Names& constants) const {
  auto data = std::make_shared<BoundSpace::Data>();
  data->name = name_;
  data->constraints = constraints_;
  data->constants = constants;
  for (const KnobDeclaration& declaration : knobs_) {
    data->knobs.push_back(bind_knob(declaration, constants));
    data->defaults.push_back(bind_default(declaration, data->knobs.back(), constants));
  }
  const ConstraintCompiler compiler(data->knobs, constants);
  for (std::size_t i = 0; i < constraints_.size(); ++i) {
    at_place(fmt::format("{}: condition {}", source_, i + 1),
             [&] { compiler.check_names(constraints_[i].expression); });
  }
  data->diagram = at_place(source_, [&] { return build_diagram(data->knobs, constraints_, compiler); });
  data->used = used_positions(data->diagram, data->knobs.size());
  return BoundSpace(std::move(data));
}

std::optional<std::string> SearchSpace::violation(const Configuration& configuration,
                                                  const Names& constants) const {
  std::vector<Knob> knobs;
  knobs.reserve(knobs_.size());
  for (const KnobDeclaration& declaration : knobs_) knobs.push_back(bind_knob(declaration, constants));
  return violation_of(knobs, constraints_, constants, configuration);
}

std::optional<Configuration> SearchSpace::valid_default(const Names& constants) const {
  std::vector<Knob> knobs;
  std::vector<std::pair<std::string, Value>> defaults;
  for (const KnobDeclaration& declaration : knobs_) {
    const Knob& knob = knobs.emplace_back(bind_knob(declaration, constants));
    defaults.emplace_back(knob.name, knob.values[bind_default(declaration, knob, constants)]);
  }
  Configuration configuration(std::move(defaults));
  if (violation_of(knobs, constraints_, constants, configuration)) return std::nullopt;
  return configuration;
}

}  // namespace knobwise
