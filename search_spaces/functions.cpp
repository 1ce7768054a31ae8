// The functions that expressions may call.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "search_spaces/datum.h"

namespace knobwise {
namespace {

using Arguments = std::span<const Datum>;

void expect_count(Arguments arguments, std::size_t least, std::size_t most) {
  if (arguments.size() >= least && arguments.size() <= most) return;
  throw OperationError(
      fmt::format("takes {} argument{}, not {}",
                  least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most),
                  most == 1 ? "" : "s", arguments.size()));
}

const Datum& number(Arguments arguments) {
  expect_count(arguments, 1, 1);
  if (!arguments[0].is_number()) throw OperationError("takes a number");
  return arguments[0];
}

const DatumList& list(Arguments arguments) {
  expect_count(arguments, 1, 1);
  if (arguments[0].kind != Datum::Kind::list) throw OperationError("takes a list");
  return *arguments[0].list;
}

Datum extreme(Arguments arguments, Comparison better) {
  if (arguments.size() == 1) {
    if (arguments[0].is_number()) return arguments[0];
    arguments = list(arguments);
  }
  if (arguments.empty()) throw OperationError("has nothing to choose from");
  Datum best = arguments[0];
  for (const Datum& candidate : arguments.subspan(1)) {
    if (compare(better, candidate, best)) best = candidate;
  }
  return best;
}

Datum minimum(Arguments arguments, Arena&) {
  return extreme(arguments, Comparison::less);
}
Datum maximum(Arguments arguments, Arena&) {
  return extreme(arguments, Comparison::greater);
}

Datum absolute(Arguments arguments, Arena&) {
  const Datum& value = number(arguments);
  if (value.kind == Datum::Kind::real) return Datum::of(std::abs(value.real));
  return value.integer < 0 ? apply_unary(Operation::negate, value) : Datum::of(value.integer);
}

// Rounds a real by `rounding` and makes it an integer; integers stay.
template <double (*rounding)(double)>
Datum rounded(Arguments arguments, Arena&) {
  const Datum& value = number(arguments);
  return Datum::of(value.is_integral() ? value.integer : real_to_integer(rounding(value.real)));
}

double half_to_even(double value) {
  return value - std::remainder(value, 1.0);
}
double toward_zero(double value) {
  return std::trunc(value);
}
double up(double value) {
  return std::ceil(value);
}
double down(double value) {
  return std::floor(value);
}

Datum to_real(Arguments arguments, Arena&) {
  return Datum::of(number(arguments).as_real());
}

Datum to_boolean(Arguments arguments, Arena&) {
  expect_count(arguments, 1, 1);
  return Datum::of(truth(arguments[0]));
}

Datum log2(Arguments arguments, Arena&) {
  const double value = number(arguments).as_real();
  if (!(value > 0)) throw OperationError("takes a positive number");
  return Datum::of(std::log2(value));
}

Datum square_root(Arguments arguments, Arena&) {
  const double value = number(arguments).as_real();
  if (!(value >= 0)) throw OperationError("takes a number that is not negative");
  return Datum::of(std::sqrt(value));
}

Datum logarithm(Arguments arguments, Arena&) {
  expect_count(arguments, 1, 2);
  const double value = number(arguments.first(1)).as_real();
  const double base = arguments.size() == 2 ? number(arguments.subspan(1)).as_real() : std::numbers::e;
  if (!(value > 0) || !(base > 0) || base == 1)
    throw OperationError("takes positive numbers, and a base other than 1");
  return Datum::of(arguments.size() == 1 ? std::log(value) : std::log(value) / std::log(base));
}

Datum power(Arguments arguments, Arena& arena) {
  expect_count(arguments, 2, 2);
  return apply_binary(Operation::power, arguments[0], arguments[1], arena);
}

Datum greatest_common_divisor(Arguments arguments, Arena&) {
  std::uint64_t result = 0;
  for (const Datum& argument : arguments) {
    if (!argument.is_integral()) throw OperationError("takes integers");
    const auto value = static_cast<std::uint64_t>(argument.integer);
    result = std::gcd(result, argument.integer < 0 ? 0 - value : value);
  }
  if (result > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw OperationError("the result does not fit in 64 bits");
  return Datum::of(static_cast<std::int64_t>(result));
}

Datum length(Arguments arguments, Arena&) {
  expect_count(arguments, 1, 1);
  const bool is_text = arguments[0].kind == Datum::Kind::text;
  return Datum::of(static_cast<std::int64_t>(is_text ? arguments[0].text->size() : list(arguments).size()));
}

Datum sum(Arguments arguments, Arena& arena) {
  Datum total = Datum::of(std::int64_t{0});
  for (const Datum& item : list(arguments)) {
    if (!item.is_number()) throw OperationError("takes a list of numbers");
    total = apply_binary(Operation::add, total, item, arena);
  }
  return total;
}

Datum any(Arguments arguments, Arena&) {
  return Datum::of(std::any_of(list(arguments).begin(), list(arguments).end(), truth));
}

Datum all(Arguments arguments, Arena&) {
  return Datum::of(std::all_of(list(arguments).begin(), list(arguments).end(), truth));
}

Datum to_list(Arguments arguments, Arena&) {
  return Datum::of(&list(arguments));
}

Datum sorted(Arguments arguments, Arena& arena) {
  DatumList result = list(arguments);
  std::stable_sort(result.begin(), result.end(),
                   [](const Datum& a, const Datum& b) { return compare(Comparison::less, a, b); });
  return arena.keep(std::move(result));
}

// slice(list, from, to, step), as the parser writes list[from:to:step]; '' is a bound that was left out.
Datum slice(Arguments arguments, Arena& arena) {
  expect_count(arguments, 4, 4);
  const DatumList& container = list(arguments.first(1));
  const auto size = static_cast<std::int64_t>(container.size());
  const auto left_out = [&](std::size_t i) {
    return arguments[i].kind == Datum::Kind::text && arguments[i].text->empty();
  };
  const auto bound = [&](std::size_t i, std::int64_t otherwise) {
    if (left_out(i)) return otherwise;
    if (!arguments[i].is_integral()) throw OperationError("the bounds of a slice are integers");
    return arguments[i].integer;
  };
  const std::int64_t step = bound(3, 1);
  if (step == 0) throw OperationError("the step of a slice is 0");
  const std::int64_t least = step > 0 ? 0 : -1, most = step > 0 ? size : size - 1;
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = bound(i, otherwise);
    if (left_out(i)) return at;
    return std::clamp(at < 0 && at >= -size ? at + size : at, least, most);
  };
  const std::int64_t from = place(1, step > 0 ? least : most), to = place(2, step > 0 ? most : least);
  DatumList result;
  // Steps beyond the list's length take at most one element; cutting them keeps the sum in range.
  const std::int64_t stride = std::clamp(step, -size - 1, size + 1);
  for (std::int64_t at = from; step > 0 ? at < to : at > to; at += stride)
    result.push_back(container[static_cast<std::size_t>(at)]);
  return arena.keep(std::move(result));
}

// Counts in unsigned arithmetic: the distance between two integers may need all 64 bits.
std::uint64_t range_length(std::int64_t from, std::int64_t to, std::int64_t step) {
  if (step > 0 ? from >= to : from <= to) return 0;
  const auto low = static_cast<std::uint64_t>(step > 0 ? from : to);
  const auto high = static_cast<std::uint64_t>(step > 0 ? to : from);
  const std::uint64_t stride =
      step > 0 ? static_cast<std::uint64_t>(step) : -static_cast<std::uint64_t>(step);
  return (high - low - 1) / stride + 1;
}

Datum range(Arguments arguments, Arena& arena) {
  expect_count(arguments, 1, 3);
  for (const Datum& argument : arguments) {
    if (!argument.is_integral()) throw OperationError("takes integers");
  }
  const std::int64_t from = arguments.size() == 1 ? 0 : arguments[0].integer;
  const std::int64_t to = arguments[arguments.size() == 1 ? 0 : 1].integer;
  const std::int64_t step = arguments.size() == 3 ? arguments[2].integer : 1;
  if (step == 0) throw OperationError("takes a step other than 0");
  const std::uint64_t count = range_length(from, to, step);
  if (count > static_cast<std::uint64_t>(kMaximumLength)) throw OperationError("the result is too long");
  DatumList result(count);
  for (std::uint64_t i = 0; i < count; ++i) result[i] = Datum::of(from + static_cast<std::int64_t>(i) * step);
  return arena.keep(std::move(result));
}

struct NamedFunction {
  std::string_view name;
  Function function;
};

constexpr std::array<NamedFunction, 22> kFunctions = {{
    {"min", minimum},
    {"max", maximum},
    {"abs", absolute},
    {"int", rounded<toward_zero>},
    {"float", to_real},
    {"bool", to_boolean},
    {"round", rounded<half_to_even>},
    {"ceil", rounded<up>},
    {"floor", rounded<down>},
    {"log", logarithm},
    {"log2", log2},
    {"pow", power},
    {"gcd", greatest_common_divisor},
    {"sqrt", square_root},
    {"len", length},
    {"sum", sum},
    {"any", any},
    {"all", all},
    {"range", range},
    {"list", to_list},
    {"sorted", sorted},
    {"slice", slice},
}};

bool is_of_math(std::string_view name) {
  return name == "ceil" || name == "floor" || name == "log2" || name == "sqrt" || name == "log" ||
         name == "pow" || name == "gcd";
}

}  // namespace

Function find_function(std::string_view name) {
  if (name.starts_with("math.")) {
    name.remove_prefix(5);
    return is_of_math(name) ? find_function(name) : nullptr;
  }
  if (name == "tuple") return to_list;
  for (const NamedFunction& candidate : kFunctions) {
    if (candidate.name == name) return candidate.function;
  }
  return nullptr;
}

}  // namespace knobwise
