// Syntax tree to canonical text.
#include <fmt/format.h>

#include "search_spaces/syntax_tree.h"

namespace knobwise {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '\n':
        result += "\\n";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\\':
      case '"':
        result += '\\';
        [[fallthrough]];
      default:
        result += c;
    }
  }
  return result + '"';
}

class Printer {
 public:
  explicit Printer(const SyntaxTree& tree) : tree_(tree) {}

  /// In parentheses if the node binds less tightly than `minimum`.
  std::string print(NodeId id, int minimum) const {
    const SyntaxNode& node = tree_.nodes[id];
    const std::string text = bare(node);
    return precedence(node.operation) < minimum ? fmt::format("({})", text) : text;
  }

 private:
  std::string bare(const SyntaxNode& node) const {
    const int level = precedence(node.operation);
    const auto child = [&](std::size_t i, int minimum) { return print(tree_.children(node)[i], minimum); };
    switch (node.operation) {
      case Operation::literal:
        return print_literal(node.literal);
      case Operation::name:
        return node.name();
      case Operation::list:
        return fmt::format("[{}]", joined(node));
      case Operation::tuple:
        return fmt::format("({}{})", joined(node), tree_.children(node).size() == 1 ? "," : "");
      case Operation::call:
        return fmt::format("{}({})", node.name(), joined(node));
      case Operation::index:
        return fmt::format("{}[{}]", child(0, kAtomPrecedence), child(1, kConditionalPrecedence));
      case Operation::comprehension:
      case Operation::flattened:
        return fmt::format("[{}{}]", print(element(node), kConditionalPrecedence), clauses(node));
      case Operation::negate:
      case Operation::plus:
      case Operation::invert:
      case Operation::logical_not:
        return std::string(spelling(node.operation)) + child(0, level);
      case Operation::compare:
        return comparison(node);
      case Operation::conditional:
        return fmt::format("{} if {} else {}", child(0, kOrPrecedence), child(1, kOrPrecedence),
                           child(2, kConditionalPrecedence));
      case Operation::power:
        return child(0, kAtomPrecedence) + " ** " + child(1, kUnaryPrecedence);
      default:
        return fmt::format("{} {} {}", child(0, level), spelling(node.operation), child(1, level + 1));
    }
  }

  std::string joined(const SyntaxNode& node) const {
    std::string result;
    for (const NodeId child : tree_.children(node)) {
      result += fmt::format("{}{}", result.empty() ? "" : ", ", print(child, kConditionalPrecedence));
    }
    return result;
  }

  NodeId element(const SyntaxNode& node) const {
    const NodeId first = tree_.children(node)[0];
    return node.operation == Operation::flattened ? element(tree_.nodes[first]) : first;
  }

  std::string clauses(const SyntaxNode& node) const {
    std::string result =
        fmt::format(" for {} in {}", node.name(), print(tree_.children(node)[1], kOrPrecedence));
    if (tree_.children(node).size() == 3) result += " if " + print(tree_.children(node)[2], kOrPrecedence);
    if (node.operation == Operation::flattened) result += clauses(tree_.nodes[tree_.children(node)[0]]);
    return result;
  }

  std::string comparison(const SyntaxNode& node) const {
    const int minimum = precedence(Operation::compare) + 1;
    std::string result = print(tree_.children(node)[0], minimum);
    for (std::size_t i = 0; i < tree_.comparisons(node).size(); ++i) {
      result += fmt::format(" {} {}", spelling(tree_.comparisons(node)[i]),
                            print(tree_.children(node)[i + 1], minimum));
    }
    return result;
  }

  const SyntaxTree& tree_;
};

}  // namespace

std::string print_literal(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "True" : "False";
  if (const std::string* text = std::get_if<std::string>(&value)) return quoted(*text);
  return to_string(value);
}

std::string print_expression(const SyntaxTree& tree) {
  return Printer(tree).print(tree.root, kConditionalPrecedence);
}

}  // namespace knobwise
