// The arguments of a user's kernel: what they are and what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "kernels/user/element_type.h"
#include "search_spaces/expression.h"

namespace knobwise {

/// How an array or a scalar gets its content.
struct ArgumentFill {
  enum class Kind {
    none,       ///< Left as it is: an output that the kernel writes whole.
    constant,   ///< FillValue.
    random,     ///< Uniform in [0, FillValue); for integers, 0 to FillValue inclusive.
    generator,  ///< DataSource, an expression over the component's index `i`.
    file,       ///< DataSource, a file of exactly the array's bytes.
  };
  Kind kind = Kind::none;
  double value = 0;
  std::string source;  ///< The expression, or the file's path.
  std::optional<std::uint64_t> seed;

  /// Reads FillType, FillValue (an expression over the names), DataSource and RandomSeed. Throws UserError.
  static ArgumentFill parse(const nlohmann::json& argument, const std::filesystem::path& folder,
                            const std::string& place, const Names& names = {}, const ListNames& lists = {});

  /// Fills host memory of `components` components; `seed` serves where the file gives none. Uses all cores.
  /// Throws UserError for a file of another size.
  void fill(void* data, const ElementType& type, std::int64_t components, std::uint64_t seed) const;
};

/// One argument. A value type.
struct UserArgument {
  enum class Memory {
    vector,  ///< A pointer to an array.
    scalar,  ///< A value.
    symbol,  ///< No argument of the function: a __constant__ array of this name.
  };

  std::string name;
  ElementType type;
  Memory memory = Memory::vector;
  bool constant = false;  ///< Also copied to the __constant__ array of its name, if there is one.
  bool output = false;    ///< Compared with the reference.
  bool writable = false;  ///< The kernel may write it.
  bool overwrites =
      false;  ///< The kernel writes it without reading: it is poisoned before each verified run.
  std::int64_t elements = 1;
  ArgumentFill fill;

  std::size_t bytes() const { return static_cast<std::size_t>(elements) * type.bytes(); }
  std::int64_t components() const { return elements * static_cast<std::int64_t>(type.components); }

  /// Reads a T1 argument. Size is an expression over the names. Throws UserError.
  static UserArgument parse(const nlohmann::json& argument, const std::filesystem::path& folder,
                            const Names& names, const ListNames& lists, const std::string& place);
};

}  // namespace knobwise
