// How many blocks of how many threads a user's kernel is launched with.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device_info.h"
#include "search_spaces/expression.h"

namespace knobwise {

using ProblemSize = std::vector<std::int64_t>;  ///< Up to three extents: x, y, z.

/// What a T1 kernel specification says of the launch, as expressions over the knobs. An immutable value.
///
/// With a ProblemSize and GridDivX/Y/Z, a dimension has ceil(ProblemSize / product of its divisors) blocks.
/// Otherwise GlobalSize says it: in blocks, or with GlobalSizeType OpenCL or Vulkan in threads, which
/// LocalSize divides. With neither, LocalSize divides the ProblemSize; in C++, where blocks have no threads,
/// the ProblemSize is the grid.
class LaunchShape {
 public:
  /// Reads LocalSize, GlobalSize, GlobalSizeType, GridDivX/Y/Z and SharedMemory. Throws UserError.
  static LaunchShape parse(const nlohmann::json& specification, const std::string& place);

  struct Extents {
    std::array<std::int64_t, 3> grid{1, 1, 1};
    std::array<std::int64_t, 3> block{1, 1, 1};
    std::int64_t shared_bytes = 0;
  };
  /// Throws UserError for an expression that cannot be evaluated or is no whole number. Extents may be out of
  /// range.
  Extents evaluate(const Names& names, const ProblemSize& size, Backend backend) const;

  bool has_local_size() const { return local_[0].has_value(); }

 private:
  using Dimension = std::optional<Expression>;

  std::array<Dimension, 3> local_, global_;
  std::array<std::vector<Expression>, 3> divisors_;
  bool has_divisors_ = false;
  bool global_in_threads_ = false;
  Dimension shared_;
  std::string place_;
};

/// An expression that must give a whole number; `what` names it in the message.
std::int64_t whole_number(const Expression& expression, const Names& names, const ListNames& lists,
                          const std::string& what);

}  // namespace knobwise
