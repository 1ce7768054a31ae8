// The parsed form of an expression. Internal to search_spaces/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/user_error.h"
#include "search_spaces/value.h"

namespace knobwise {

using NodeId = std::uint32_t;

enum class Operation : std::uint8_t {
  literal,
  name,
  list,
  tuple,
  comprehension,  // element, iterable, condition if any; the variable in SyntaxNode::name()
  flattened,      // a comprehension with more than one `for`: its element is the comprehension of the rest
  index,          // container, position
  call,           // arguments; the function in SyntaxNode::name()
  negate,
  plus,
  invert,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  bit_and,
  bit_xor,
  bit_or,
  shift_left,
  shift_right,
  logical_and,
  logical_or,
  compare,      // n operands, n-1 comparisons
  conditional,  // in written order: value, condition, other value
};

enum class Comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

/// Small: a space has thousands, and an application reads one when it makes its first plan.
struct SyntaxNode {
  Operation operation = Operation::literal;
  std::uint32_t first_child = 0;  // into SyntaxTree::child_ids
  std::uint32_t child_count = 0;
  std::uint32_t first_comparison = 0;  // into SyntaxTree::comparison_list
  std::uint32_t offset = 0;            // bytes into SyntaxTree::text
  std::uint32_t length = 0;
  Value literal;  // or the name, as text

  const std::string& name() const { return std::get<std::string>(literal); }
};

/// Children come before their parents in `nodes`.
struct SyntaxTree {
  std::string text;
  std::vector<SyntaxNode> nodes;
  std::vector<NodeId> child_ids;
  std::vector<Comparison> comparison_list;
  NodeId root = 0;

  std::span<const NodeId> children(const SyntaxNode& node) const {
    return std::span(child_ids).subspan(node.first_child, node.child_count);
  }
  /// Of a node that compares: one fewer than its operands.
  std::span<const Comparison> comparisons(const SyntaxNode& node) const {
    return std::span(comparison_list).subspan(node.first_comparison, node.child_count - 1);
  }
};

/// How tightly an operation binds; higher binds tighter. Python's table.
int precedence(Operation operation);
constexpr int kConditionalPrecedence = 0;
constexpr int kOrPrecedence = 1;
constexpr int kNotPrecedence = 3;
constexpr int kComparePrecedence = 4;
constexpr int kUnaryPrecedence = 11;
constexpr int kAtomPrecedence = 13;

/// Python's spelling of a unary or binary operation.
std::string_view spelling(Operation operation);
std::string_view spelling(Comparison comparison);

/// Throws UserError that points into the text.
SyntaxTree parse_expression(std::string_view text);

/// Canonical text with the fewest parentheses: parse_expression(print_expression(t)) is t again.
std::string print_expression(const SyntaxTree& tree);
std::string print_literal(const Value& value);

/// A UserError about the bytes offset .. offset+length of an expression.
UserError expression_error(const std::string& message, const std::string& text, std::size_t offset,
                           std::size_t length);

}  // namespace knobwise
