// The expression language of search spaces: the pure part of Python's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/value.h"

namespace knobwise {

/// The names that an expression may use and their values: knobs, problem dimensions, device limits.
using Names = std::map<std::string, Value, std::less<>>;
/// Names that stand for lists, which expressions index or give to functions: ProblemSize[0], max(tiles).
using ListNames = std::map<std::string, std::vector<Value>, std::less<>>;

struct SyntaxTree;

/// An expression in Python syntax, parsed once.
///
/// Integers, reals, text, True/False, lists, tuples, sets, comprehensions, indexing and
/// slices;
/// + - * / // % **, unary + - not, comparisons (chained too), `in`, `not in`, and, or, `a if c else b`; the
/// functions min max abs int float round len sum any all range list tuple sorted bool pow gcd log log2 ceil
/// floor sqrt (the last six also as `math.ceil` and so on). The meaning is Python's: // and % round down, /
/// is real, True == 1, and/or give an operand, chained comparisons evaluate the middle once. The differences:
/// an integer past 64 bits is an error, as is a complex result; min(x) or max(x) of a number is that number,
/// as published kernel specifications use it; lists, tuples, sets and ranges are one type.
///
/// An immutable value: copies share the tree, and any number of threads may use them. Mistakes throw
/// UserError whose text() is the expression and whose offset() and length() mark the part at fault: at
/// parsing for the syntax, at evaluation for unknown names, wrong types, division by zero, overflow.
class Expression {
 public:
  static Expression parse(std::string_view text);
  /// The expression that is this value; a real must be finite.
  static Expression literal(const Value& value);

  /// As it was written.
  const std::string& text() const;
  /// Canonical text, with the fewest parentheses: parse(e.to_string()) == e.
  std::string to_string() const;
  /// The free names, in the order of their first use: without functions and comprehension variables.
  std::vector<std::string> names() const;

  /// A single value; a list is an error here. A name in both is that of `names`.
  Value evaluate(const Names& names = {}, const ListNames& lists = {}) const;
  /// The elements of a list, tuple or range of single values; a single value gives a list of one.
  std::vector<Value> evaluate_list(const Names& names = {}, const ListNames& lists = {}) const;
  /// The truth of the result, as Python's bool() takes it.
  bool holds(const Names& names = {}) const;

  /// Internal: the parsed form, for the solver.
  const SyntaxTree& tree() const { return *tree_; }

  /// The same syntax, whatever the spelling (spaces, redundant parentheses).
  bool operator==(const Expression& other) const;

 private:
  explicit Expression(std::shared_ptr<const SyntaxTree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const SyntaxTree> tree_;
};

}  // namespace knobwise
