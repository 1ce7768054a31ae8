// The arguments of an executable's launches, in little memory: applications keep many executables.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/device.h"

namespace knobwise {

/// What the launches of one executable take. Filled by add(), then only read: thread-safe.
class LaunchArguments {
 public:
  /// The arguments of one launch.
  struct Range {
    std::uint32_t first : 24 = 0;
    std::uint32_t count : 8 = 0;
  };

  /// Throws as check_arguments() does.
  Range add(const KernelLaunch& launch);
  /// Frees what further add() calls would have used.
  void shrink();

  /// For each argument the buffer's pointer or, of a scalar, a pointer to its value. `values` has room for
  /// KernelLaunch::kMostArguments.
  void values(Range range, const Buffers& buffers, void** values) const;
  /// Likewise pointers to the values: of a buffer the pointer to its element of `values`.
  void addresses(Range range, const Buffers& buffers, void** values, void** addresses) const;

 private:
  struct Argument {
    std::uint64_t slot : 8;
    std::uint64_t index : 56;  // of a scalar, into scalars_
  };
  bool is_scalar(std::size_t i) const { return static_cast<Slot>(arguments_[i].slot) == Slot::scalar; }

  std::vector<Argument> arguments_;
  std::vector<std::uint64_t> scalars_;  // the values, each from a word of its own on
};

}  // namespace knobwise
