// What the assembler says a kernel needs.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kernels/device.h"

namespace knobwise {

/// Reads the report that `--ptxas-options=-v` leaves in the compiler's log: for each entry function its
/// registers, spills (stores plus loads), stack frame and static shared memory. Figures that a function's
/// report lacks are 0 when the function is reported at all. Lines of other kinds are ignored.
std::map<std::string, Resources, std::less<>> parse_resource_report(std::string_view log);

/// The worst of each figure, for an executable of several kernels.
Resources worst_of(const Resources& a, const Resources& b);

}  // namespace knobwise
