// Values while an expression is evaluated, and Python's arithmetic on them. Internal to search_spaces/.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/syntax_tree.h"
#include "search_spaces/value.h"

namespace knobwise {

struct Datum;
using DatumList = std::vector<Datum>;

/// A value of an expression: a Value or a list of them. Text and lists belong to an Arena.
struct Datum {
  enum class Kind : std::uint8_t { boolean, integer, real, text, list };

  Kind kind = Kind::boolean;
  union {
    std::int64_t integer = 0;  // also 0 or 1 of a boolean
    double real;
    const std::string* text;
    const DatumList* list;
  };

  static Datum of(bool value);
  static Datum of(std::int64_t value);
  static Datum of(double value);
  static Datum of(const std::string* value);
  static Datum of(const DatumList* value);

  bool is_integral() const { return kind <= Kind::integer; }
  bool is_number() const { return kind <= Kind::real; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(integer); }
};

/// Owns the text and lists that an evaluation creates.
class Arena {
 public:
  Datum keep(std::string text) {
    return Datum::of(texts_.emplace_back(std::make_unique<std::string>(std::move(text))).get());
  }
  Datum keep(DatumList list) {
    return Datum::of(lists_.emplace_back(std::make_unique<DatumList>(std::move(list))).get());
  }
  Datum keep(const Value& value);

 private:
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::unique_ptr<DatumList>> lists_;
};

/// An operation that its operands do not allow. Whoever knows the place in the expression turns it into a
/// UserError.
class OperationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The longest list or text that an expression may make.
constexpr std::int64_t kMaximumLength = std::int64_t{1} << 24;

/// The datum of a value, without a copy: its text must outlive it.
Datum view(const Value& value);
/// Equal as in Python: 1, 1.0 and True are.
bool equal(const Value& left, const Value& right);

/// Copies the value out; throws OperationError for a list.
Value to_value(const Datum& datum);

bool truth(const Datum& datum);
bool equal(const Datum& left, const Datum& right);
bool compare(Comparison comparison, const Datum& left, const Datum& right);
Datum apply_unary(Operation operation, const Datum& operand);
Datum apply_binary(Operation operation, const Datum& left, const Datum& right, Arena& arena);
Datum element(const Datum& container, const Datum& position, Arena& arena);

/// A function that expressions may call.
using Function = Datum (*)(std::span<const Datum> arguments, Arena& arena);

/// Null for an unknown name; `math.ceil` is the same as `ceil`.
Function find_function(std::string_view name);

/// Conversions that both operators and functions need; they throw OperationError when the result does not
/// fit.
std::int64_t real_to_integer(double value);
std::int64_t add_checked(std::int64_t left, std::int64_t right);

inline Datum Datum::of(bool value) {
  Datum datum;
  datum.integer = value ? 1 : 0;
  return datum;
}

inline Datum Datum::of(std::int64_t value) {
  Datum datum;
  datum.kind = Kind::integer;
  datum.integer = value;
  return datum;
}

inline Datum Datum::of(double value) {
  Datum datum;
  datum.kind = Kind::real;
  datum.real = value;
  return datum;
}

inline Datum Datum::of(const std::string* value) {
  Datum datum;
  datum.kind = Kind::text;
  datum.text = value;
  return datum;
}

inline Datum Datum::of(const DatumList* value) {
  Datum datum;
  datum.kind = Kind::list;
  datum.list = value;
  return datum;
}

}  // namespace knobwise
