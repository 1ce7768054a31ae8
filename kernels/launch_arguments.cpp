#include "kernels/launch_arguments.h"

#include <cstring>

namespace knobwise {

static_assert(KernelLaunch::kMostArguments < 256);

LaunchArguments::Range LaunchArguments::add(const KernelLaunch& launch) {
  check_arguments(launch);
  Range range;
  range.first = static_cast<std::uint32_t>(arguments_.size()) & 0xFFFFFF;
  range.count = static_cast<std::uint32_t>(launch.arguments.size()) & 0xFF;
  for (const auto& [slot, index] : launch.arguments) {
    std::uint64_t place = index;
    if (slot == Slot::scalar) {
      const std::string& bytes = launch.scalars.at(index);
      place = scalars_.size();
      scalars_.resize(place + (bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
      std::memcpy(scalars_.data() + place, bytes.data(), bytes.size());
    }
    Argument& argument = arguments_.emplace_back();
    argument.slot = static_cast<std::uint64_t>(slot) & 0xFF;
    argument.index = place & 0xFFFFFFFFFFFFFF;
  }
  return range;
}

void LaunchArguments::shrink() {
  arguments_.shrink_to_fit();
  scalars_.shrink_to_fit();
}

void LaunchArguments::values(Range range, const Buffers& buffers, void** values) const {
  for (std::size_t i = 0; i < range.count; ++i) {
    const Argument argument = arguments_[range.first + i];
    // Kernels only read scalars.
    values[i] = is_scalar(range.first + i)
                    ? const_cast<std::uint64_t*>(scalars_.data() + argument.index)
                    : buffers.resolve({static_cast<Slot>(argument.slot), argument.index});
  }
}

void LaunchArguments::addresses(Range range, const Buffers& buffers, void** values, void** addresses) const {
  this->values(range, buffers, values);
  for (std::size_t i = 0; i < range.count; ++i)
    addresses[i] = is_scalar(range.first + i) ? values[i] : &values[i];
}

}  // namespace knobwise
