#include "search_spaces/syntax_tree.h"

#include <fmt/format.h>

#include <array>

namespace knobwise {

int precedence(Operation operation) {
  switch (operation) {
    case Operation::conditional:
      return kConditionalPrecedence;
    case Operation::logical_or:
      return kOrPrecedence;
    case Operation::logical_and:
      return 2;
    case Operation::logical_not:
      return kNotPrecedence;
    case Operation::compare:
      return kComparePrecedence;
    case Operation::bit_or:
      return 5;
    case Operation::bit_xor:
      return 6;
    case Operation::bit_and:
      return 7;
    case Operation::shift_left:
    case Operation::shift_right:
      return 8;
    case Operation::add:
    case Operation::subtract:
      return 9;
    case Operation::multiply:
    case Operation::divide:
    case Operation::floor_divide:
    case Operation::modulo:
      return 10;
    case Operation::negate:
    case Operation::plus:
    case Operation::invert:
      return kUnaryPrecedence;
    case Operation::power:
      return 12;
    default:
      return kAtomPrecedence;
  }
}

std::string_view spelling(Operation operation) {
  switch (operation) {
    case Operation::negate:
    case Operation::subtract:
      return "-";
    case Operation::plus:
    case Operation::add:
      return "+";
    case Operation::invert:
      return "~";
    case Operation::logical_not:
      return "not ";
    case Operation::multiply:
      return "*";
    case Operation::divide:
      return "/";
    case Operation::floor_divide:
      return "//";
    case Operation::modulo:
      return "%";
    case Operation::power:
      return "**";
    case Operation::bit_and:
      return "&";
    case Operation::bit_xor:
      return "^";
    case Operation::bit_or:
      return "|";
    case Operation::shift_left:
      return "<<";
    case Operation::shift_right:
      return ">>";
    case Operation::logical_and:
      return "and";
    case Operation::logical_or:
      return "or";
    default:
      return "";
  }
}

std::string_view spelling(Comparison comparison) {
  constexpr std::array<std::string_view, 8> kSpellings = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<std::size_t>(comparison)];
}

UserError expression_error(const std::string& message, const std::string& text, std::size_t offset,
                           std::size_t length) {
  return UserError(fmt::format("expression `{}`, column {}: {}", text, offset + 1, message), text, offset,
                   length);
}

}  // namespace knobwise
