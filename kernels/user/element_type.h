// The element types of a user's kernel arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace knobwise {

/// A T1 type: "float", "uint8", "half", "double4", or "custom" with a size. A value type.
struct ElementType {
  enum class Kind {
    integer,
    unsigned_integer,
    half,
    real,
    bytes,  ///< custom: compared byte by byte
  };

  std::string name;
  Kind kind = Kind::real;
  std::size_t component_bytes = 4;  ///< 1 for bytes
  std::size_t components = 1;       ///< float4: 4; custom: its size

  std::size_t bytes() const { return component_bytes * components; }
  bool is_real() const { return kind == Kind::half || kind == Kind::real; }

  /// `custom_bytes` is the TypeSize of a custom type. Throws UserError that lists the types; `place` begins
  /// it.
  static ElementType parse(std::string_view name, std::size_t custom_bytes, const std::string& place);

  /// Component `index` of an array as a number.
  double load(const void* data, std::int64_t index) const;
  /// Writes component `index`, rounded to the type; integers are cut to its range.
  void store(void* data, std::int64_t index, double value) const;
};

}  // namespace knobwise
