#include "kernels/user/element_type.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "kernels/operands.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

using Kind = ElementType::Kind;

struct Scalar {
  std::string_view name;
  Kind kind;
  std::size_t bytes;
};

constexpr std::array kScalars = {
    Scalar{"bool", Kind::unsigned_integer, 1},
    Scalar{"int8", Kind::integer, 1},
    Scalar{"uint8", Kind::unsigned_integer, 1},
    Scalar{"int16", Kind::integer, 2},
    Scalar{"uint16", Kind::unsigned_integer, 2},
    Scalar{"int32", Kind::integer, 4},
    Scalar{"uint32", Kind::unsigned_integer, 4},
    Scalar{"int64", Kind::integer, 8},
    Scalar{"uint64", Kind::unsigned_integer, 8},
    Scalar{"int", Kind::integer, 4},
    Scalar{"uint", Kind::unsigned_integer, 4},
    Scalar{"half", Kind::half, 2},
    Scalar{"float", Kind::real, 4},
    Scalar{"double", Kind::real, 8},
};

// Calls `visit` with a null pointer of the component's type in memory.
template <class Visit>
auto with_type(const ElementType& type, Visit visit) {
  switch (type.kind) {
    case Kind::integer:
      if (type.component_bytes == 1) return visit(static_cast<std::int8_t*>(nullptr));
      if (type.component_bytes == 2) return visit(static_cast<std::int16_t*>(nullptr));
      if (type.component_bytes == 4) return visit(static_cast<std::int32_t*>(nullptr));
      return visit(static_cast<std::int64_t*>(nullptr));
    case Kind::real:
      if (type.component_bytes == 4) return visit(static_cast<float*>(nullptr));
      return visit(static_cast<double*>(nullptr));
    default:
      if (type.component_bytes == 1) return visit(static_cast<std::uint8_t*>(nullptr));
      if (type.component_bytes == 2) return visit(static_cast<std::uint16_t*>(nullptr));
      if (type.component_bytes == 4) return visit(static_cast<std::uint32_t*>(nullptr));
      return visit(static_cast<std::uint64_t*>(nullptr));
  }
}

template <class T>
T converted(double value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    // The largest 64-bit integers are no doubles: what rounds to 2^63 is cut too.
    if (std::isnan(value)) return 0;
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(value);
  }
}

}  // namespace

ElementType ElementType::parse(std::string_view name, std::size_t custom_bytes, const std::string& place) {
  if (name == "custom" && custom_bytes > 0) return {std::string(name), Kind::bytes, 1, custom_bytes};
  for (const Scalar& scalar : kScalars) {
    if (!name.starts_with(scalar.name)) continue;
    const std::string_view lanes = name.substr(scalar.name.size());
    std::size_t components = 1;
    if (!lanes.empty()) {
      const auto [end, error] = std::from_chars(lanes.data(), lanes.data() + lanes.size(), components);
      const bool known = components >= 2 && components <= 16;
      if (error != std::errc() || end != lanes.data() + lanes.size() || !known) continue;
    }
    return {std::string(name), scalar.kind, scalar.bytes, components};
  }
  throw UserError(fmt::format(
      "{}: {}; use bool, int8 to int64, uint8 to uint64, half, float, double, vectors of the "
      "last three such as float4, or custom with a TypeSize",
      place, name == "custom" ? "custom without a TypeSize" : fmt::format("unknown Type `{}`", name)));
}

double ElementType::load(const void* data, std::int64_t index) const {
  if (kind == Kind::half) return load_element(data, DType::f16, index);
  return with_type(*this, [&](auto* type) {
    return static_cast<double>(static_cast<const std::remove_pointer_t<decltype(type)>*>(data)[index]);
  });
}

void ElementType::store(void* data, std::int64_t index, double value) const {
  if (kind == Kind::half) return store_element(data, DType::f16, index, value);
  with_type(*this, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    static_cast<T*>(data)[index] = converted<T>(value);
  });
}

}  // namespace knobwise
