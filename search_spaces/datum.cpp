#include "search_spaces/datum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace knobwise {
namespace {

constexpr const char* kOverflow = "the result does not fit in 64 bits";

std::string_view kind_name(const Datum& datum) {
  switch (datum.kind) {
    case Datum::Kind::boolean:
      return "a boolean";
    case Datum::Kind::integer:
      return "an integer";
    case Datum::Kind::real:
      return "a real";
    case Datum::Kind::text:
      return "a text";
    case Datum::Kind::list:
      break;
  }
  return "a list";
}

std::partial_ordering order_integer_real(std::int64_t left, double right) {
  if (std::isnan(right)) return std::partial_ordering::unordered;
  if (right >= 0x1p63) return std::partial_ordering::less;
  if (right < -0x1p63) return std::partial_ordering::greater;
  const double whole = std::trunc(right);
  const auto order = left <=> static_cast<std::int64_t>(whole);
  return order != 0 ? std::partial_ordering(order) : 0.0 <=> right - whole;
}

std::partial_ordering reversed(std::partial_ordering order) {
  if (order == std::partial_ordering::less) return std::partial_ordering::greater;
  if (order == std::partial_ordering::greater) return std::partial_ordering::less;
  return order;
}

std::partial_ordering order_numbers(const Datum& left, const Datum& right) {
  if (left.is_integral() && right.is_integral()) return left.integer <=> right.integer;
  if (left.is_integral()) return order_integer_real(left.integer, right.real);
  if (right.is_integral()) return reversed(order_integer_real(right.integer, left.real));
  return left.real <=> right.real;
}

std::partial_ordering order(const Datum& left, const Datum& right) {
  if (left.is_number() && right.is_number()) return order_numbers(left, right);
  if (left.kind != right.kind) {
    throw OperationError(fmt::format("{} and {} have no order", kind_name(left), kind_name(right)));
  }
  if (left.kind == Datum::Kind::text) return *left.text <=> *right.text;
  const std::size_t common = std::min(left.list->size(), right.list->size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equal((*left.list)[i], (*right.list)[i])) return order((*left.list)[i], (*right.list)[i]);
  }
  return left.list->size() <=> right.list->size();
}

bool contains(const Datum& container, const Datum& item) {
  if (container.kind == Datum::Kind::list) {
    return std::any_of(container.list->begin(), container.list->end(),
                       [&](const Datum& candidate) { return equal(candidate, item); });
  }
  if (container.kind == Datum::Kind::text && item.kind == Datum::Kind::text) {
    return container.text->find(*item.text) != std::string::npos;
  }
  throw OperationError(fmt::format("`in` looks for {} in {}", kind_name(item), kind_name(container)));
}

std::int64_t multiply_checked(std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(left, right, &result)) throw OperationError(kOverflow);
  return result;
}

std::int64_t floor_divide(std::int64_t left, std::int64_t right) {
  if (right == -1) return multiply_checked(left, -1);
  const std::int64_t quotient = left / right;
  return quotient - (left % right != 0 && (left % right < 0) != (right < 0) ? 1 : 0);
}

std::int64_t modulo(std::int64_t left, std::int64_t right) {
  if (right == -1) return 0;
  const std::int64_t remainder = left % right;
  return remainder + (remainder != 0 && (remainder < 0) != (right < 0) ? right : 0);
}

// The sign of the result is the divisor's, as in Python.
double modulo(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder == 0) return std::copysign(0.0, right);
  return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

// floor(left / right) would round the quotient first and miss by one next to an integer.
double floor_divide(double left, double right) {
  const double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0 && (remainder < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0) result = multiply_checked(result, base);
    exponent >>= 1;
    if (exponent == 0) return result;
    base = multiply_checked(base, base);
  }
}

Datum power(const Datum& left, const Datum& right) {
  if (left.is_integral() && right.is_integral() && right.integer >= 0) {
    return Datum::of(integer_power(left.integer, right.integer));
  }
  const double base = left.as_real();
  const double exponent = right.as_real();
  if (base == 0 && exponent < 0) throw OperationError("0 to a negative power");
  if (base < 0 && std::isfinite(exponent) && std::trunc(exponent) != exponent) {
    throw OperationError("a negative number to a fractional power");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    throw OperationError("the result is too large for a real");
  }
  return Datum::of(result);
}

std::int64_t shift(Operation operation, std::int64_t value, std::int64_t count) {
  if (count < 0) throw OperationError("a shift by a negative count");
  if (operation == Operation::shift_right) return value >> std::min<std::int64_t>(count, 63);
  if (value == 0) return 0;
  if (count > 62) throw OperationError(kOverflow);
  return multiply_checked(value, std::int64_t{1} << count);
}

// The operands are integral; division and powers are not among the operations.
std::int64_t apply_integers(Operation operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (operation) {
    case Operation::add:
      return add_checked(left, right);
    case Operation::subtract:
      if (__builtin_sub_overflow(left, right, &result)) throw OperationError(kOverflow);
      return result;
    case Operation::multiply:
      return multiply_checked(left, right);
    case Operation::floor_divide:
      if (right == 0) throw OperationError("division by zero");
      return floor_divide(left, right);
    case Operation::modulo:
      if (right == 0) throw OperationError("modulo by zero");
      return modulo(left, right);
    case Operation::bit_and:
      return left & right;
    case Operation::bit_or:
      return left | right;
    case Operation::bit_xor:
      return left ^ right;
    default:
      return shift(operation, left, right);
  }
}

Datum apply_reals(Operation operation, double left, double right) {
  switch (operation) {
    case Operation::add:
      return Datum::of(left + right);
    case Operation::subtract:
      return Datum::of(left - right);
    case Operation::multiply:
      return Datum::of(left * right);
    case Operation::floor_divide:
      if (right == 0) throw OperationError("division by zero");
      return Datum::of(floor_divide(left, right));
    case Operation::modulo:
      if (right == 0) throw OperationError("modulo by zero");
      return Datum::of(modulo(left, right));
    default:
      throw OperationError(fmt::format("`{}` takes integers", spelling(operation)));
  }
}

Datum divide(const Datum& left, const Datum& right) {
  if (right.as_real() == 0) throw OperationError("division by zero");
  if (left.kind == Datum::Kind::real || right.kind == Datum::Kind::real) {
    return Datum::of(left.as_real() / right.as_real());
  }
  // Integers past 2^53 keep all their bits in the wider type.
  return Datum::of(
      static_cast<double>(static_cast<long double>(left.integer) / static_cast<long double>(right.integer)));
}

bool is_bitwise(Operation operation) {
  return operation == Operation::bit_and || operation == Operation::bit_or || operation == Operation::bit_xor;
}

Datum apply_numbers(Operation operation, const Datum& left, const Datum& right) {
  if (operation == Operation::divide) return divide(left, right);
  if (operation == Operation::power) return power(left, right);
  if (!left.is_integral() || !right.is_integral())
    return apply_reals(operation, left.as_real(), right.as_real());
  const std::int64_t result = apply_integers(operation, left.integer, right.integer);
  const bool booleans = left.kind == Datum::Kind::boolean && right.kind == Datum::Kind::boolean;
  return booleans && is_bitwise(operation) ? Datum::of(result != 0) : Datum::of(result);
}

template <class Sequence>
Sequence repeated(const Sequence& sequence, std::int64_t times) {
  Sequence result;
  const std::int64_t length = static_cast<std::int64_t>(sequence.size());
  if (length > 0 && times > kMaximumLength / length) throw OperationError("the result is too long");
  for (std::int64_t i = 0; i < times; ++i) result.insert(result.end(), sequence.begin(), sequence.end());
  return result;
}

template <class Sequence>
Sequence joined(Sequence left, const Sequence& right) {
  if (static_cast<std::int64_t>(left.size() + right.size()) > kMaximumLength) {
    throw OperationError("the result is too long");
  }
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace

Datum view(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return Datum::of(*truth);
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) return Datum::of(*integer);
  if (const double* real = std::get_if<double>(&value)) return Datum::of(*real);
  return Datum::of(&std::get<std::string>(value));
}

bool equal(const Value& left, const Value& right) {
  return equal(view(left), view(right));
}

Datum Arena::keep(const Value& value) {
  const std::string* text = std::get_if<std::string>(&value);
  return text != nullptr ? keep(*text) : view(value);
}

Value to_value(const Datum& datum) {
  switch (datum.kind) {
    case Datum::Kind::boolean:
      return datum.integer != 0;
    case Datum::Kind::integer:
      return datum.integer;
    case Datum::Kind::real:
      return datum.real;
    case Datum::Kind::text:
      return *datum.text;
    case Datum::Kind::list:
      break;
  }
  throw OperationError("the result is a list where a single value is needed");
}

bool truth(const Datum& datum) {
  switch (datum.kind) {
    case Datum::Kind::real:
      return datum.real != 0;
    case Datum::Kind::text:
      return !datum.text->empty();
    case Datum::Kind::list:
      return !datum.list->empty();
    default:
      return datum.integer != 0;
  }
}

bool equal(const Datum& left, const Datum& right) {
  if (left.is_number() && right.is_number()) return order_numbers(left, right) == 0;
  if (left.kind != right.kind) return false;
  if (left.kind == Datum::Kind::text) return *left.text == *right.text;
  return std::equal(left.list->begin(), left.list->end(), right.list->begin(), right.list->end(),
                    [](const Datum& a, const Datum& b) { return equal(a, b); });
}

bool compare(Comparison comparison, const Datum& left, const Datum& right) {
  switch (comparison) {
    case Comparison::equal:
      return equal(left, right);
    case Comparison::not_equal:
      return !equal(left, right);
    case Comparison::less:
      return order(left, right) < 0;
    case Comparison::less_equal:
      return order(left, right) <= 0;
    case Comparison::greater:
      return order(left, right) > 0;
    case Comparison::greater_equal:
      return order(left, right) >= 0;
    case Comparison::in:
      return contains(right, left);
    case Comparison::not_in:
      break;
  }
  return !contains(right, left);
}

Datum apply_unary(Operation operation, const Datum& operand) {
  if (operation == Operation::logical_not) return Datum::of(!truth(operand));
  if (!operand.is_number()) {
    throw OperationError(fmt::format("`{}` does not apply to {}", spelling(operation), kind_name(operand)));
  }
  if (operation == Operation::invert) {
    if (!operand.is_integral()) throw OperationError("`~` takes an integer");
    return Datum::of(~operand.integer);
  }
  if (operand.kind == Datum::Kind::real)
    return Datum::of(operation == Operation::negate ? -operand.real : operand.real);
  return Datum::of(operation == Operation::negate ? multiply_checked(operand.integer, -1) : operand.integer);
}

Datum apply_binary(Operation operation, const Datum& left, const Datum& right, Arena& arena) {
  using Kind = Datum::Kind;
  if (left.is_number() && right.is_number()) return apply_numbers(operation, left, right);
  if (operation == Operation::add && left.kind == right.kind) {
    return left.kind == Kind::text ? arena.keep(joined(*left.text, *right.text))
                                   : arena.keep(joined(*left.list, *right.list));
  }
  if (operation == Operation::multiply && (left.is_integral() || right.is_integral())) {
    const Datum& sequence = left.is_integral() ? right : left;
    const std::int64_t times = left.is_integral() ? left.integer : right.integer;
    if (sequence.kind == Kind::text) return arena.keep(repeated(*sequence.text, times));
    if (sequence.kind == Kind::list) return arena.keep(repeated(*sequence.list, times));
  }
  throw OperationError(fmt::format("`{}` does not apply to {} and {}", spelling(operation), kind_name(left),
                                   kind_name(right)));
}

Datum element(const Datum& container, const Datum& position, Arena& arena) {
  const bool is_text = container.kind == Datum::Kind::text;
  if (!is_text && container.kind != Datum::Kind::list) {
    throw OperationError(fmt::format("{} has no elements", kind_name(container)));
  }
  if (!position.is_integral()) throw OperationError(fmt::format("the position is {}", kind_name(position)));
  const auto size = static_cast<std::int64_t>(is_text ? container.text->size() : container.list->size());
  const std::int64_t index = position.integer + (position.integer < 0 ? size : 0);
  if (index < 0 || index >= size) {
    throw OperationError(fmt::format("position {} is outside the {} elements", position.integer, size));
  }
  if (is_text) return arena.keep(container.text->substr(static_cast<std::size_t>(index), 1));
  return (*container.list)[static_cast<std::size_t>(index)];
}

std::int64_t real_to_integer(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) throw OperationError(kOverflow);
  return static_cast<std::int64_t>(value);
}

std::int64_t add_checked(std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(left, right, &result)) throw OperationError(kOverflow);
  return result;
}

}  // namespace knobwise
