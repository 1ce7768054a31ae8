// An expression with its names resolved, quick to evaluate many times. Internal to search_spaces/.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search_spaces/datum.h"
#include "search_spaces/expression.h"
#include "search_spaces/syntax_tree.h"

namespace knobwise {

/// What a name stands for: the number of a slot, filled at each evaluation, or a value or list known now.
using Meaning = std::variant<std::uint32_t, Value, std::vector<Value>>;

/// Gives a name's meaning; none for an unknown name.
using Resolver = std::function<std::optional<Meaning>(std::string_view name)>;

/// Compiled from a syntax tree: names are slots or constants, and whatever depends on no slot is computed
/// once, here.
///
/// Immutable and safe to use from many threads. The expression must outlive it.
class Program {
 public:
  /// Throws UserError for an unknown name or function.
  static Program compile(const Expression& expression, const Resolver& resolve);

  /// The parts whose conjunction the expression is: operands of `and` and links of chained comparisons, each
  /// of which may depend on fewer names than the whole.
  static std::vector<Program> compile_conjuncts(const Expression& expression, const Resolver& resolve);

  /// The slots it reads, ascending.
  const std::vector<std::uint32_t>& slots() const { return slots_; }

  /// The largest parts that can be computed from these slots alone (by number: is it known?) and give a
  /// single value; with `slots_only`, the slots themselves. Parts that depend on no slot are left out.
  std::vector<NodeId> computable_parts(const std::vector<bool>& known, bool slots_only) const;
  /// The slot that a part is; none if it is a computation.
  std::optional<std::uint32_t> slot_of(NodeId part) const;
  /// The part as a program of its own, in which every smaller part that `leaf` gives a slot for reads that
  /// slot.
  Program specialised(NodeId part, const std::function<std::optional<std::uint32_t>(NodeId)>& leaf) const;
  NodeId root() const { return root_; }

  /// `slots[i]` is the value of slot i; results live as long as `arena`, the program and the slots. Throws
  /// UserError that points into the expression.
  Datum evaluate(const Datum* slots, Arena& arena) const;
  bool holds(const Datum* slots) const;

 private:
  friend class Compiler;
  friend class Evaluation;

  struct Node {
    Operation operation = Operation::literal;
    bool is_local = false;    // name: a comprehension's variable, not a slot
    bool has_slots = false;   // it or a part of it reads a slot
    bool has_locals = false;  // it or a part of it reads a variable of a comprehension around it
    bool makes_list = false;
    std::uint32_t first = 0;    // into children_
    std::uint32_t count = 0;    // of children
    std::uint32_t slot = 0;     // name: the slot; comprehension: its variable
    std::uint32_t compare = 0;  // compare: the first of its comparisons
    Datum constant;             // literal
    Function function = nullptr;
    std::uint32_t offset = 0;  // bytes into the text
    std::uint32_t length = 0;
  };

  explicit Program(const SyntaxTree& tree) : tree_(&tree), arena_(std::make_shared<Arena>()) {}

  const SyntaxTree* tree_;
  std::vector<Node> nodes_;
  std::vector<NodeId> children_;
  std::vector<Comparison> comparisons_;
  std::vector<std::uint32_t> slots_;
  NodeId root_ = 0;
  std::shared_ptr<Arena> arena_;  // owns the constants
};

}  // namespace knobwise
