#include "search_spaces/expression.h"

#include <algorithm>

#include "search_spaces/program.h"
#include "search_spaces/syntax_tree.h"

namespace knobwise {
namespace {

class NameCollector {
 public:
  explicit NameCollector(const SyntaxTree& tree) : tree_(tree) { visit(tree.root); }

  std::vector<std::string> names;

 private:
  void visit(NodeId id) {
    const SyntaxNode& node = tree_.nodes[id];
    if (node.operation == Operation::name) {
      note(node.name());
    } else if (node.operation == Operation::comprehension || node.operation == Operation::flattened) {
      visit(tree_.children(node)[1]);
      variables_.push_back(node.name());
      visit(tree_.children(node)[0]);
      if (tree_.children(node).size() == 3) visit(tree_.children(node)[2]);
      variables_.pop_back();
    } else {
      for (const NodeId child : tree_.children(node)) visit(child);
    }
  }

  void note(const std::string& name) {
    const bool is_variable = std::find(variables_.begin(), variables_.end(), name) != variables_.end();
    if (!is_variable && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }

  const SyntaxTree& tree_;
  std::vector<std::string> variables_;
};

bool same(const SyntaxTree& left, NodeId left_id, const SyntaxTree& right, NodeId right_id) {
  const SyntaxNode& a = left.nodes[left_id];
  const SyntaxNode& b = right.nodes[right_id];
  return a.operation == b.operation && a.literal == b.literal &&
         (a.operation != Operation::compare ||
          std::ranges::equal(left.comparisons(a), right.comparisons(b))) &&
         std::ranges::equal(left.children(a), right.children(b),
                            [&](NodeId x, NodeId y) { return same(left, x, right, y); });
}

Program compile(const Expression& expression, const Names& names, const ListNames& lists = {}) {
  return Program::compile(expression, [&](std::string_view name) -> std::optional<Meaning> {
    if (const auto found = names.find(name); found != names.end()) return found->second;
    if (const auto found = lists.find(name); found != lists.end()) return found->second;
    return std::nullopt;
  });
}

// The result is a list where one value is needed, or a list of lists: the whole expression is at fault.
Value single(const SyntaxTree& tree, const Datum& datum) {
  try {
    return to_value(datum);
  } catch (const OperationError& error) {
    throw expression_error(error.what(), tree.text, 0, tree.text.size());
  }
}

}  // namespace

Expression Expression::parse(std::string_view text) {
  return Expression(std::make_shared<const SyntaxTree>(parse_expression(text)));
}

Expression Expression::literal(const Value& value) {
  return parse(print_literal(value));
}

const std::string& Expression::text() const {
  return tree_->text;
}

std::string Expression::to_string() const {
  return print_expression(*tree_);
}

std::vector<std::string> Expression::names() const {
  return NameCollector(*tree_).names;
}

Value Expression::evaluate(const Names& names, const ListNames& lists) const {
  Arena arena;
  const Program program = compile(*this, names, lists);
  return single(*tree_, program.evaluate(nullptr, arena));
}

std::vector<Value> Expression::evaluate_list(const Names& names, const ListNames& lists) const {
  Arena arena;
  const Program program = compile(*this, names, lists);
  const Datum result = program.evaluate(nullptr, arena);
  if (result.kind != Datum::Kind::list) return {single(*tree_, result)};
  std::vector<Value> values;
  values.reserve(result.list->size());
  for (const Datum& datum : *result.list) values.push_back(single(*tree_, datum));
  return values;
}

bool Expression::holds(const Names& names) const {
  return compile(*this, names).holds(nullptr);
}

bool Expression::operator==(const Expression& other) const {
  return same(*tree_, tree_->root, *other.tree_, other.tree_->root);
}

}  // namespace knobwise
