#include "search_spaces/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

namespace knobwise {

namespace {

// Comprehensions nest at most this deep, so that their variables need no allocation.
constexpr std::size_t kMaximumLocals = 8;

}  // namespace

/// One evaluation of one program.
class Evaluation {
 public:
  Evaluation(const Program& program, const Datum* slots, Arena& arena)
      : program_(program), slots_(slots), arena_(arena) {}

  Datum value(NodeId id) {
    const Program::Node& node = program_.nodes_[id];
    try {
      return value(node);
    } catch (const OperationError& error) {
      const std::string what =
          node.operation == Operation::call ? call_error(node, error.what()) : error.what();
      throw expression_error(what, program_.tree_->text, node.offset, node.length);
    }
  }

 private:
  NodeId child(const Program::Node& node, std::uint32_t i) const {
    return program_.children_[node.first + i];
  }

  Datum value(const Program::Node& node) {
    switch (node.operation) {
      case Operation::literal:
        return node.constant;
      case Operation::name:
        return node.is_local ? locals_[node.slot] : slots_[node.slot];
      case Operation::logical_and: {
        const Datum left = value(child(node, 0));
        return truth(left) ? value(child(node, 1)) : left;
      }
      case Operation::logical_or: {
        const Datum left = value(child(node, 0));
        return truth(left) ? left : value(child(node, 1));
      }
      case Operation::conditional:
        return value(child(node, truth(value(child(node, 1))) ? 0 : 2));
      case Operation::compare:
        return comparison(node);
      case Operation::negate:
      case Operation::plus:
      case Operation::invert:
      case Operation::logical_not:
        return apply_unary(node.operation, value(child(node, 0)));
      case Operation::list:
      case Operation::tuple:
        return arena_.keep(elements(node));
      case Operation::comprehension:
      case Operation::flattened: {
        DatumList result;
        comprehend(node, result);
        return arena_.keep(std::move(result));
      }
      case Operation::call:
        return node.function(elements(node), arena_);
      case Operation::index:
        return element(value(child(node, 0)), value(child(node, 1)), arena_);
      default:
        return binary(node);
    }
  }

  // Constraints are integer arithmetic almost always: the common operations are done here, the rest in
  // general.
  Datum binary(const Program::Node& node) {
    const Datum left = value(child(node, 0));
    const Datum right = value(child(node, 1));
    if (left.kind == Datum::Kind::integer && right.kind == Datum::Kind::integer) {
      std::int64_t result = 0;
      switch (node.operation) {
        case Operation::multiply:
          if (!__builtin_mul_overflow(left.integer, right.integer, &result)) return Datum::of(result);
          break;
        case Operation::add:
          if (!__builtin_add_overflow(left.integer, right.integer, &result)) return Datum::of(result);
          break;
        case Operation::modulo:
          if (left.integer >= 0 && right.integer > 0) return Datum::of(left.integer % right.integer);
          break;
        case Operation::floor_divide:
          if (left.integer >= 0 && right.integer > 0) return Datum::of(left.integer / right.integer);
          break;
        default:
          break;
      }
    }
    return apply_binary(node.operation, left, right, arena_);
  }

  static bool compared(Comparison comparison, const Datum& left, const Datum& right) {
    if (!left.is_integral() || !right.is_integral()) return compare(comparison, left, right);
    switch (comparison) {
      case Comparison::equal:
        return left.integer == right.integer;
      case Comparison::not_equal:
        return left.integer != right.integer;
      case Comparison::less:
        return left.integer < right.integer;
      case Comparison::less_equal:
        return left.integer <= right.integer;
      case Comparison::greater:
        return left.integer > right.integer;
      case Comparison::greater_equal:
        return left.integer >= right.integer;
      default:
        return compare(comparison, left, right);
    }
  }

  Datum comparison(const Program::Node& node) {
    Datum left = value(child(node, 0));
    for (std::uint32_t i = 1; i < node.count; ++i) {
      const Datum right = value(child(node, i));
      if (!compared(program_.comparisons_[node.compare + i - 1], left, right)) return Datum::of(false);
      left = right;
    }
    return Datum::of(true);
  }

  DatumList elements(const Program::Node& node) {
    DatumList result;
    result.reserve(node.count);
    for (std::uint32_t i = 0; i < node.count; ++i) result.push_back(value(child(node, i)));
    return result;
  }

  // Appends the elements.
  void comprehend(const Program::Node& node, DatumList& result) {
    const Datum iterable = value(child(node, 1));
    if (iterable.kind != Datum::Kind::list)
      throw OperationError("the comprehension runs over something other than a list");
    for (const Datum& item : *iterable.list) {
      count_steps(1);
      locals_[node.slot] = item;
      if (node.count == 3 && !truth(value(child(node, 2)))) continue;
      if (node.operation == Operation::flattened) {
        append(program_.nodes_[child(node, 0)], result);
      } else {
        result.push_back(value(child(node, 0)));
      }
    }
  }

  // The elements of the rest of a comprehension, which may have been computed when the program was made.
  void append(const Program::Node& rest, DatumList& result) {
    if (rest.operation != Operation::literal) return comprehend(rest, result);
    const DatumList& elements = *rest.constant.list;
    count_steps(static_cast<std::int64_t>(elements.size()));
    result.insert(result.end(), elements.begin(), elements.end());
  }

  void count_steps(std::int64_t steps) {
    steps_ += steps;
    if (steps_ > kMaximumLength) throw OperationError("the comprehensions take too many steps");
  }

  std::string call_error(const Program::Node& node, const std::string& what) const {
    const std::string_view source = std::string_view(program_.tree_->text).substr(node.offset);
    return fmt::format("{}() {}", source.substr(0, source.find_first_of("( ")), what);
  }

  const Program& program_;
  const Datum* slots_;
  Arena& arena_;
  std::array<Datum, kMaximumLocals> locals_;
  std::int64_t steps_ = 0;  // of all comprehensions
};

/// Turns a syntax tree, or a part of it, into a program.
class Compiler {
 public:
  Compiler(const SyntaxTree& tree, const Resolver& resolve)
      : tree_(tree), resolve_(resolve), program_(tree) {}

  Program whole(NodeId root) {
    program_.root_ = node(root);
    return finish();
  }

  /// Link `i` of a chained comparison.
  Program link(NodeId chain, std::size_t i) {
    const SyntaxNode& syntax = tree_.nodes[chain];
    const std::vector<NodeId> operands = {node(tree_.children(syntax)[i]),
                                          node(tree_.children(syntax)[i + 1])};
    program_.root_ = add(syntax, operands, tree_.comparisons(syntax).subspan(i, 1));
    return finish();
  }

 private:
  Program finish() {
    std::sort(program_.slots_.begin(), program_.slots_.end());
    program_.slots_.erase(std::unique(program_.slots_.begin(), program_.slots_.end()), program_.slots_.end());
    return std::move(program_);
  }

  NodeId node(NodeId id) {
    const SyntaxNode& syntax = tree_.nodes[id];
    switch (syntax.operation) {
      case Operation::literal:
        return literal(syntax, program_.arena_->keep(syntax.literal));
      case Operation::name:
        return name(syntax);
      case Operation::comprehension:
      case Operation::flattened:
        return comprehension(syntax);
      case Operation::logical_and:
      case Operation::logical_or:
      case Operation::conditional:
        return chosen(syntax);
      default:
        return add(syntax, children(syntax),
                   syntax.operation == Operation::compare ? tree_.comparisons(syntax)
                                                          : std::span<const Comparison>());
    }
  }

  std::vector<NodeId> children(const SyntaxNode& syntax) {
    std::vector<NodeId> result;
    result.reserve(tree_.children(syntax).size());
    for (const NodeId child : tree_.children(syntax)) result.push_back(node(child));
    return result;
  }

  bool is_constant(NodeId id) const { return program_.nodes_[id].operation == Operation::literal; }

  // Operations that evaluate one operand or another: only the chosen one is compiled when the choice is
  // known.
  NodeId chosen(const SyntaxNode& syntax) {
    const bool conditional = syntax.operation == Operation::conditional;
    const NodeId decider = node(tree_.children(syntax)[conditional ? 1 : 0]);
    if (!is_constant(decider)) {
      if (!conditional) return add(syntax, {decider, node(tree_.children(syntax)[1])}, {});
      const NodeId value = node(tree_.children(syntax)[0]);
      return add(syntax, {value, decider, node(tree_.children(syntax)[2])}, {});
    }
    const bool holds = truth(program_.nodes_[decider].constant);
    if (conditional) return node(tree_.children(syntax)[holds ? 0 : 2]);
    return holds == (syntax.operation == Operation::logical_or) ? decider : node(tree_.children(syntax)[1]);
  }

  NodeId add(const SyntaxNode& syntax, const std::vector<NodeId>& operands,
             std::span<const Comparison> comparisons) {
    Program::Node result = placed(syntax);
    result.first = static_cast<std::uint32_t>(program_.children_.size());
    result.count = static_cast<std::uint32_t>(operands.size());
    result.compare = static_cast<std::uint32_t>(program_.comparisons_.size());
    if (syntax.operation == Operation::call) result.function = function(syntax);
    result.makes_list = makes_list(syntax);
    for (const NodeId operand : operands) {
      result.has_slots |= program_.nodes_[operand].has_slots;
      result.has_locals |= program_.nodes_[operand].has_locals;
    }
    program_.children_.insert(program_.children_.end(), operands.begin(), operands.end());
    program_.comparisons_.insert(program_.comparisons_.end(), comparisons.begin(), comparisons.end());
    program_.nodes_.push_back(result);
    const auto id = static_cast<NodeId>(program_.nodes_.size() - 1);
    if (std::all_of(operands.begin(), operands.end(), [&](NodeId operand) { return is_constant(operand); }))
      fold(id);
    return id;
  }

  // What cannot be computed stays as it is: the error belongs to the evaluation, which may never come here.
  void fold(NodeId id) {
    try {
      const Datum value = Evaluation(program_, nullptr, *program_.arena_).value(id);
      program_.nodes_[id].operation = Operation::literal;
      program_.nodes_[id].constant = value;
    } catch (const UserError&) {
    }
  }

  Program::Node placed(const SyntaxNode& syntax) const {
    Program::Node result;
    result.operation = syntax.operation;
    result.offset = static_cast<std::uint32_t>(syntax.offset);
    result.length = static_cast<std::uint32_t>(syntax.length);
    return result;
  }

  NodeId literal(const SyntaxNode& syntax, Datum value) {
    Program::Node result = placed(syntax);
    result.operation = Operation::literal;
    result.constant = value;
    program_.nodes_.push_back(result);
    return static_cast<NodeId>(program_.nodes_.size() - 1);
  }

  NodeId name(const SyntaxNode& syntax) {
    Program::Node result = placed(syntax);
    const auto local = std::find(locals_.rbegin(), locals_.rend(), syntax.name());
    if (local != locals_.rend()) {
      result.is_local = true;
      result.has_locals = true;
      result.slot = static_cast<std::uint32_t>(locals_.rend() - local - 1);
    } else {
      const std::optional<Meaning> meaning = resolve_(syntax.name());
      if (!meaning) fail(syntax, fmt::format("unknown name `{}`", syntax.name()));
      if (const Value* value = std::get_if<Value>(&*meaning))
        return literal(syntax, program_.arena_->keep(*value));
      if (const auto* values = std::get_if<std::vector<Value>>(&*meaning)) {
        DatumList list;
        for (const Value& value : *values) list.push_back(program_.arena_->keep(value));
        return literal(syntax, program_.arena_->keep(std::move(list)));
      }
      result.slot = std::get<std::uint32_t>(*meaning);
      result.has_slots = true;
      program_.slots_.push_back(result.slot);
    }
    program_.nodes_.push_back(result);
    return static_cast<NodeId>(program_.nodes_.size() - 1);
  }

  // The variable is visible in the element and the condition, not in the iterable.
  NodeId comprehension(const SyntaxNode& syntax) {
    const NodeId iterable = node(tree_.children(syntax)[1]);
    if (locals_.size() == kMaximumLocals) fail(syntax, "comprehensions are nested too deeply");
    locals_.push_back(syntax.name());
    std::vector<NodeId> operands = {node(tree_.children(syntax)[0]), iterable};
    if (tree_.children(syntax).size() == 3) operands.push_back(node(tree_.children(syntax)[2]));
    locals_.pop_back();
    const NodeId result = add(syntax, operands, {});
    Program::Node& added = program_.nodes_[result];
    added.slot = static_cast<std::uint32_t>(locals_.size());
    if (locals_.empty()) added.has_locals = false;
    if (!added.has_slots && !added.has_locals && !is_constant(result)) fold(result);
    return result;
  }

  static bool makes_list(const SyntaxNode& syntax) {
    switch (syntax.operation) {
      case Operation::list:
      case Operation::tuple:
      case Operation::comprehension:
      case Operation::flattened:
        return true;
      case Operation::call:
        return syntax.name() == "list" || syntax.name() == "tuple" || syntax.name() == "range" ||
               syntax.name() == "sorted" || syntax.name() == "slice";
      default:
        return false;
    }
  }

  Function function(const SyntaxNode& syntax) const {
    const Function result = find_function(syntax.name());
    if (result == nullptr) fail(syntax, fmt::format("unknown function `{}`", syntax.name()));
    return result;
  }

  [[noreturn]] void fail(const SyntaxNode& syntax, const std::string& message) const {
    throw expression_error(message, tree_.text, syntax.offset, syntax.length);
  }

  const SyntaxTree& tree_;
  const Resolver& resolve_;
  Program program_;
  std::vector<std::string> locals_;
};

namespace {

void split_conjuncts(const SyntaxTree& tree, NodeId id, const Resolver& resolve,
                     std::vector<Program>& parts) {
  const SyntaxNode& node = tree.nodes[id];
  if (node.operation == Operation::logical_and) {
    split_conjuncts(tree, tree.children(node)[0], resolve, parts);
    split_conjuncts(tree, tree.children(node)[1], resolve, parts);
  } else if (node.operation == Operation::compare) {
    for (std::size_t i = 0; i < tree.comparisons(node).size(); ++i)
      parts.push_back(Compiler(tree, resolve).link(id, i));
  } else {
    parts.push_back(Compiler(tree, resolve).whole(id));
  }
}

}  // namespace

Program Program::compile(const Expression& expression, const Resolver& resolve) {
  return Compiler(expression.tree(), resolve).whole(expression.tree().root);
}

std::vector<Program> Program::compile_conjuncts(const Expression& expression, const Resolver& resolve) {
  std::vector<Program> parts;
  split_conjuncts(expression.tree(), expression.tree().root, resolve, parts);
  return parts;
}

std::vector<NodeId> Program::computable_parts(const std::vector<bool>& known, bool slots_only) const {
  std::vector<bool> is_known(nodes_.size());
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    const auto child_is_known = [&](NodeId child) { return is_known[child]; };
    const auto children = std::span(children_).subspan(node.first, node.count);
    const bool is_slot = node.operation == Operation::name && !node.is_local;
    is_known[id] = is_slot ? known[node.slot] : std::all_of(children.begin(), children.end(), child_is_known);
  }
  std::vector<NodeId> parts;
  std::vector<NodeId> open = {root_};
  while (!open.empty()) {
    const NodeId id = open.back();
    const Node& node = nodes_[id];
    open.pop_back();
    if (!node.has_slots) continue;
    const bool is_slot = slot_of(id).has_value();
    if (is_known[id] && (is_slot || (!slots_only && !node.has_locals && !node.makes_list))) {
      parts.push_back(id);
    } else {
      open.insert(open.end(), children_.begin() + node.first, children_.begin() + node.first + node.count);
    }
  }
  return parts;
}

std::optional<std::uint32_t> Program::slot_of(NodeId part) const {
  const Node& node = nodes_[part];
  if (node.operation != Operation::name || node.is_local) return std::nullopt;
  return node.slot;
}

Program Program::specialised(NodeId part,
                             const std::function<std::optional<std::uint32_t>(NodeId)>& leaf) const {
  Program result = *this;
  result.root_ = part;
  result.slots_.clear();
  std::vector<NodeId> open = {part};
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    Node& node = result.nodes_[id];
    if (const std::optional<std::uint32_t> slot = leaf(id)) {
      node.operation = Operation::name;
      node.is_local = false;
      node.slot = *slot;
      result.slots_.push_back(*slot);
    } else {
      open.insert(open.end(), children_.begin() + node.first, children_.begin() + node.first + node.count);
    }
  }
  std::sort(result.slots_.begin(), result.slots_.end());
  result.slots_.erase(std::unique(result.slots_.begin(), result.slots_.end()), result.slots_.end());
  return result;
}

Datum Program::evaluate(const Datum* slots, Arena& arena) const {
  return Evaluation(*this, slots, arena).value(root_);
}

bool Program::holds(const Datum* slots) const {
  Arena arena;
  return truth(evaluate(slots, arena));
}

}  // namespace knobwise
