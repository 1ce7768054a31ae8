// Text to syntax tree: a tokenizer and a precedence-climbing parser.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "search_spaces/syntax_tree.h"

namespace knobwise {
namespace {

enum class TokenKind { number, text, word, symbol, end };

struct Token {
  TokenKind kind;
  std::string_view spelling;
  std::size_t offset;
  int level = 0;  // precedence of the binary operator that it is
  Operation operation = Operation::literal;
  std::optional<Comparison> comparison = std::nullopt;  // that it is
};

struct BinaryOperator {
  std::string_view spelling;
  Operation operation;
};

// Left-associative operators; power is parsed apart.
constexpr std::array<BinaryOperator, 13> kBinaryOperators = {{
    {"or", Operation::logical_or},
    {"and", Operation::logical_and},
    {"|", Operation::bit_or},
    {"^", Operation::bit_xor},
    {"&", Operation::bit_and},
    {"<<", Operation::shift_left},
    {">>", Operation::shift_right},
    {"+", Operation::add},
    {"-", Operation::subtract},
    {"*", Operation::multiply},
    {"/", Operation::divide},
    {"//", Operation::floor_divide},
    {"%", Operation::modulo},
}};

bool starts_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool continues_word(char c) {
  return starts_word(c) || is_digit(c);
}

class Tokenizer {
 public:
  explicit Tokenizer(const std::string& text) : text_(text) {}

  std::vector<Token> tokens() {
    std::vector<Token> result;
    result.reserve(text_.size() / 2 + 2);
    do {
      while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
      const std::size_t start = at_;
      const TokenKind kind = advance();
      result.push_back({kind, std::string_view(text_).substr(start, at_ - start), start});
      if (kind == TokenKind::symbol || kind == TokenKind::word) recognise_operator(result.back());
    } while (result.back().kind != TokenKind::end);
    return result;
  }

 private:
  // Most tokens are names and brackets: the first character tells.
  static void recognise_operator(Token& token) {
    const char first = token.spelling[0];
    if (std::string_view("=!<>i").find(first) != std::string_view::npos) {
      for (int i = 0; i <= static_cast<int>(Comparison::in); ++i) {
        const auto candidate = static_cast<Comparison>(i);
        if (token.spelling == spelling(candidate)) token.comparison = candidate;
      }
    }
    for (const BinaryOperator& candidate : kBinaryOperators) {
      if (first != candidate.spelling[0] || token.spelling != candidate.spelling) continue;
      token.operation = candidate.operation;
      token.level = precedence(candidate.operation);
      return;
    }
  }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  TokenKind advance() {
    const char c = peek();
    if (at_ == text_.size()) return TokenKind::end;
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (c == '\'' || c == '"') return quoted(c);
    if (starts_word(c)) {
      while (continues_word(peek())) ++at_;
      return TokenKind::word;
    }
    return symbol();
  }

  bool digit_or_separator() const {
    return is_digit(peek()) || (peek() == '_' && is_digit(peek(1)) && at_ > 0 && is_digit(text_[at_ - 1]));
  }

  TokenKind number() {
    const std::size_t start = at_;
    if (peek() == '0' && std::isalpha(static_cast<unsigned char>(peek(1))) != 0 && peek(1) != 'e' &&
        peek(1) != 'E') {
      while (continues_word(peek())) ++at_;  // 0x1F; number_value() judges it
      return TokenKind::number;
    }
    while (digit_or_separator() || peek() == '.') ++at_;
    if (peek() == 'e' || peek() == 'E') {
      const std::size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (is_digit(peek(1 + sign))) {
        at_ += 1 + sign;
        while (is_digit(peek())) ++at_;
      }
    }
    if (starts_word(peek())) {
      while (continues_word(peek())) ++at_;
      throw expression_error(fmt::format("`{}` is not a number", text_.substr(start, at_ - start)), text_,
                             start, at_ - start);
    }
    return TokenKind::number;
  }

  TokenKind quoted(char quote) {
    const std::size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != quote) at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) {
      at_ = text_.size();
      throw expression_error("the quote is never closed", text_, start, at_ - start);
    }
    ++at_;
    return TokenKind::text;
  }

  TokenKind symbol() {
    constexpr std::array<std::string_view, 8> kPairs = {"**", "//", "<=", ">=", "==", "!=", "<<", ">>"};
    constexpr std::string_view kSingles = "+-*/%~&|^<>()[]{},.:";
    const std::string_view rest = std::string_view(text_).substr(at_);
    if (std::find(kPairs.begin(), kPairs.end(), rest.substr(0, 2)) != kPairs.end()) {
      at_ += 2;
      return TokenKind::symbol;
    }
    if (kSingles.find(rest[0]) == std::string_view::npos) {
      const std::string hint = rest[0] == '=' ? "; comparison is `==`" : "";
      throw expression_error(fmt::format("unexpected `{}`{}", rest[0], hint), text_, at_, 1);
    }
    ++at_;
    return TokenKind::symbol;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

constexpr std::array<std::string_view, 11> kKeywords = {"and",  "or",  "not",  "in",     "is",   "if",
                                                        "else", "for", "None", "lambda", "while"};

class Parser {
 public:
  explicit Parser(SyntaxTree& tree) : tree_(tree), tokens_(Tokenizer(tree.text).tokens()) {
    // About as many nodes as there are values and operators: a space stays in memory, and new memory takes
    // long.
    const auto makes_node = [](const Token& token) {
      return token.kind != TokenKind::symbol || token.level > 0 || token.comparison;
    };
    tree_.nodes.reserve(static_cast<std::size_t>(std::ranges::count_if(tokens_, makes_node)));
    tree_.child_ids.reserve(tree_.nodes.capacity());
  }

  void parse() {
    if (token().kind == TokenKind::end) fail("the expression is empty");
    tree_.root = conditional();
    if (is(",")) tree_.root = rest_of_tuple(tree_.root, tree_.nodes[tree_.root].offset);
    if (token().kind != TokenKind::end) fail(fmt::format("unexpected `{}`", token().spelling));
  }

 private:
  // Deep nesting would exhaust the stack long before anybody could read it.
  static constexpr int kMaximumDepth = 200, kMaximumLinks = 10000;

  const Token& token() const { return tokens_[at_]; }
  std::size_t start() const { return token().offset; }
  bool is(std::string_view spelling) const {
    // The first character decides mostly; it is asked for some ten spellings a token.
    const Token& token = this->token();
    return token.spelling.starts_with(spelling[0]) && token.spelling == spelling &&
           (token.kind == TokenKind::symbol || token.kind == TokenKind::word);
  }
  bool is_keyword() const {
    return std::find(kKeywords.begin(), kKeywords.end(), token().spelling) != kKeywords.end();
  }
  bool accept(std::string_view spelling) {
    if (!is(spelling)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view spelling) {
    if (accept(spelling)) return;
    const bool ended = token().kind == TokenKind::end;
    fail(ended ? fmt::format("`{}` is missing at the end", spelling)
               : fmt::format("expected `{}`, found `{}`", spelling, token().spelling));
  }
  [[noreturn]] void fail(const std::string& message) const {
    throw expression_error(message, tree_.text, start(), std::max<std::size_t>(token().spelling.size(), 1));
  }

  NodeId add(Operation operation, std::size_t start, std::initializer_list<NodeId> children) {
    return add(operation, start, std::span(children.begin(), children.size()));
  }
  NodeId add(Operation operation, std::size_t start, std::span<const NodeId> children) {
    const Token& last = tokens_[at_ - 1];
    SyntaxNode& node = tree_.nodes.emplace_back();
    node.operation = operation;
    node.first_child = static_cast<std::uint32_t>(tree_.child_ids.size());
    node.child_count = static_cast<std::uint32_t>(children.size());
    tree_.child_ids.insert(tree_.child_ids.end(), children.begin(), children.end());
    node.offset = static_cast<std::uint32_t>(start);
    node.length = static_cast<std::uint32_t>(last.offset + last.spelling.size() - start);
    return static_cast<NodeId>(tree_.nodes.size() - 1);
  }

  // A chain like a + a + .. is a tree as deep as it is long.
  void add_link() {
    if (++links_ > kMaximumLinks)
      fail(fmt::format("more than {} operators in one expression", kMaximumLinks));
  }

  NodeId conditional() {
    if (++depth_ > kMaximumDepth) fail("nested too deeply");
    const std::size_t begin = start();
    NodeId result = binary(kOrPrecedence);
    if (accept("if")) {
      const NodeId condition = binary(kOrPrecedence);
      expect("else");
      const NodeId other = conditional();
      result = add(Operation::conditional, begin, {result, condition, other});
    }
    --depth_;
    return result;
  }

  // What binds as tightly as `level` or tighter.
  NodeId binary(int level) {
    if (level == kNotPrecedence) return logical_not();
    if (level == kComparePrecedence) return comparison();
    const std::size_t begin = start();
    // The levels of arithmetic are climbed in a loop: a call for each would be most of the work.
    const bool arithmetic = level > kComparePrecedence;
    NodeId left = arithmetic ? unary() : binary(level + 1);
    while (token().level == level || (arithmetic && token().level > level)) {
      add_link();
      const auto [operation, own_level] = std::pair(token().operation, token().level);
      ++at_;
      const NodeId right = binary(own_level + 1);
      left = add(operation, begin, {left, right});
    }
    return left;
  }

  NodeId logical_not() {
    if (!is("not")) return comparison();
    if (++depth_ > kMaximumDepth) fail("nested too deeply");
    const std::size_t begin = start();
    ++at_;
    const NodeId operand = logical_not();
    --depth_;
    return add(Operation::logical_not, begin, {operand});
  }

  NodeId comparison() {
    const std::size_t begin = start();
    const NodeId first = binary(kComparePrecedence + 1);
    auto next = comparison_operator();
    if (!next) return first;
    std::vector<NodeId> operands = {first};
    std::vector<Comparison> comparisons;
    for (; next; next = comparison_operator()) {
      comparisons.push_back(*next);
      operands.push_back(binary(kComparePrecedence + 1));
    }
    const NodeId result = add(Operation::compare, begin, operands);
    tree_.nodes[result].first_comparison = static_cast<std::uint32_t>(tree_.comparison_list.size());
    tree_.comparison_list.insert(tree_.comparison_list.end(), comparisons.begin(), comparisons.end());
    return result;
  }

  std::optional<Comparison> comparison_operator() {
    if (const auto comparison = token().comparison) {
      ++at_;
      return comparison;
    }
    if (is("not") && tokens_[at_ + 1].spelling == "in") {
      at_ += 2;
      return Comparison::not_in;
    }
    return std::nullopt;
  }

  NodeId unary() {
    constexpr std::array<Operation, 3> kUnary = {Operation::negate, Operation::plus, Operation::invert};
    if (token().kind != TokenKind::symbol) return power();
    for (const Operation operation : kUnary) {
      if (!is(spelling(operation))) continue;
      if (++depth_ > kMaximumDepth) fail("nested too deeply");
      const std::size_t begin = start();
      ++at_;
      const NodeId operand = unary();
      --depth_;
      return add(operation, begin, {operand});
    }
    return power();
  }

  NodeId power() {
    const std::size_t begin = start();
    const NodeId base = postfix();
    if (!accept("**")) return base;
    if (++depth_ > kMaximumDepth) fail("nested too deeply");
    const NodeId exponent = unary();
    --depth_;
    return add(Operation::power, begin, {base, exponent});
  }

  NodeId postfix() {
    const std::size_t begin = start();
    NodeId result = atom();
    while (accept("[")) {
      add_link();
      std::optional<NodeId> position;
      if (!is(":")) position = conditional();
      const bool is_slice = is(":");
      std::vector<NodeId> operands =
          is_slice ? slice_arguments(result, position) : std::vector<NodeId>{result, *position};
      expect("]");
      result = add(is_slice ? Operation::call : Operation::index, begin, operands);
      if (is_slice) tree_.nodes[result].literal = std::string("slice");
    }
    return result;
  }

  NodeId atom() {
    switch (token().kind) {
      case TokenKind::number:
        return literal(number_value());
      case TokenKind::text:
        return literal(text_value());
      case TokenKind::word:
        return word();
      case TokenKind::symbol:
        if (is("(")) return parenthesis();
        if (is("[")) return list();
        if (is("{")) return set();
        fail(fmt::format("expected a value, found `{}`", token().spelling));
      case TokenKind::end:
        break;
    }
    fail("a value is missing at the end");
  }

  NodeId literal(Value value) {
    ++at_;
    const NodeId result = add(Operation::literal, tokens_[at_ - 1].offset, {});
    tree_.nodes[result].literal = std::move(value);
    return result;
  }

  NodeId word() {
    if (is("True")) return literal(true);
    if (is("False")) return literal(false);
    if (is_keyword()) fail(fmt::format("expected a value, found the keyword `{}`", token().spelling));
    const std::size_t begin = start();
    std::string name(token().spelling);
    ++at_;
    if (is(".")) {
      if (name != "math") fail("only functions of `math` have a dot");
      ++at_;
      if (token().kind != TokenKind::word || tokens_[at_ + 1].spelling != "(")
        fail("expected a function of `math`");
      name += "." + std::string(token().spelling);
      ++at_;
    }
    const NodeId result = is("(") ? call(begin) : add(Operation::name, begin, {});
    tree_.nodes[result].literal = std::move(name);
    return result;
  }

  NodeId call(std::size_t begin) {
    expect("(");
    std::vector<NodeId> arguments;
    while (!is(")")) {
      const std::size_t argument_begin = start();
      arguments.push_back(conditional());
      // A generator: read as the list of the same elements, which no supported function can tell apart.
      if (arguments.size() == 1 && is("for")) arguments[0] = comprehension(arguments[0], argument_begin);
      if (!accept(",")) break;
    }
    expect(")");
    return add(Operation::call, begin, arguments);
  }

  NodeId parenthesis() {
    const std::size_t begin = start();
    expect("(");
    if (accept(")")) return add(Operation::tuple, begin, {});
    const NodeId first = conditional();
    const NodeId result = is(",") ? rest_of_tuple(first, begin) : first;
    expect(")");
    return result;
  }

  NodeId rest_of_tuple(NodeId first, std::size_t begin) {
    std::vector<NodeId> elements = {first};
    while (accept(",") && !is(")") && token().kind != TokenKind::end) elements.push_back(conditional());
    return add(Operation::tuple, begin, elements);
  }

  NodeId list() {
    const std::size_t begin = start();
    expect("[");
    std::vector<NodeId> elements;
    while (!is("]")) {
      elements.push_back(conditional());
      if (elements.size() == 1 && is("for")) {
        const NodeId result = comprehension(elements[0], begin);
        expect("]");
        return result;
      }
      if (!accept(",")) break;
    }
    expect("]");
    return add(Operation::list, begin, elements);
  }

  // As the tuple of its elements: `in` cannot tell them apart.
  NodeId set() {
    const std::size_t begin = start();
    expect("{");
    std::vector<NodeId> elements;
    do {
      if (is("}")) break;
      elements.push_back(conditional());
      if (is(":")) fail("dictionaries are not supported");
    } while (accept(","));
    if (elements.empty()) fail("dictionaries are not supported");
    expect("}");
    return add(Operation::tuple, begin, elements);
  }

  // container[from:to:step] is the call slice(container, from, to, step), where '' is a bound that is left
  // out.
  std::vector<NodeId> slice_arguments(NodeId container, std::optional<NodeId> from) {
    std::vector<NodeId> arguments = {container};
    const auto bound = [&](std::optional<NodeId> given) {
      arguments.push_back(given ? *given : add(Operation::literal, start(), {}));
      if (!given) tree_.nodes[arguments.back()].literal = std::string();
    };
    const auto next = [&]() -> std::optional<NodeId> {
      if (!accept(":") || is(":") || is("]")) return std::nullopt;
      return conditional();
    };
    bound(from);
    bound(next());
    bound(next());
    return arguments;
  }

  // The clauses from here on, for an element that was read already.
  NodeId comprehension(NodeId element, std::size_t begin) {
    if (++depth_ > kMaximumDepth) fail("nested too deeply");
    expect("for");
    std::string variable = variable_name();
    expect("in");
    std::vector<NodeId> children = {element, binary(kOrPrecedence)};
    if (is("if")) children.push_back(conditions());
    const bool has_more = is("for");
    if (has_more) children[0] = comprehension(element, begin);
    const NodeId result = add(has_more ? Operation::flattened : Operation::comprehension, begin, children);
    tree_.nodes[result].literal = std::move(variable);
    --depth_;
    return result;
  }

  std::string variable_name() {
    if (token().kind != TokenKind::word || is_keyword()) fail("expected the name of the variable");
    std::string name(token().spelling);
    ++at_;
    if (is(",")) fail("a `for` has one variable here");
    return name;
  }

  // Python takes several `if`; they are one condition here.
  NodeId conditions() {
    const std::size_t begin = tokens_[at_ + 1].offset;
    expect("if");
    NodeId result = binary(kOrPrecedence);
    while (accept("if")) {
      const NodeId next = binary(kOrPrecedence);
      result = add(Operation::logical_and, begin, {result, next});
    }
    return result;
  }

  // 0x1F, 0o17, 0b11; 0 for decimal numbers.
  static int base_of(std::string_view digits) {
    if (digits.size() < 3 || digits[0] != '0') return 0;
    const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
    return mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  }

  Value number_value() const {
    std::string digits(token().spelling);
    if (const int base = base_of(digits)) {
      std::int64_t value = 0;
      const auto [stop, error] =
          std::from_chars(digits.data() + 2, digits.data() + digits.size(), value, base);
      if (error == std::errc() && stop == digits.data() + digits.size()) return value;
      fail(fmt::format("`{}` is not a number of 64 bits", digits));
    }
    std::erase(digits, '_');
    const char* end = digits.data() + digits.size();
    if (digits.find_first_of(".eE") == std::string_view::npos) {
      std::int64_t value = 0;
      const auto [stop, error] = std::from_chars(digits.data(), end, value);
      if (error != std::errc() || stop != end) fail(fmt::format("`{}` does not fit in 64 bits", digits));
      if (digits.size() > 1 && digits[0] == '0' && value != 0) fail("a number does not start with 0");
      return value;
    }
    double value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    if (error != std::errc() || stop != end) fail(fmt::format("`{}` is not a number", digits));
    return value;
  }

  Value text_value() const {
    const std::string_view quoted = token().spelling;
    std::string value;
    for (std::size_t i = 1; i + 1 < quoted.size(); ++i) {
      if (quoted[i] != '\\') {
        value += quoted[i];
        continue;
      }
      switch (quoted[++i]) {
        case 'n':
          value += '\n';
          break;
        case 't':
          value += '\t';
          break;
        case '\\':
        case '\'':
        case '"':
          value += quoted[i];
          break;
        default:
          fail(fmt::format("unknown escape `\\{}`", quoted[i]));
      }
    }
    return value;
  }

  SyntaxTree& tree_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0, links_ = 0;
};

}  // namespace

SyntaxTree parse_expression(std::string_view text) {
  SyntaxTree tree;
  tree.text = std::string(text);
  Parser(tree).parse();
  return tree;
}

}  // namespace knobwise
