// A recorded search space: the measured time of every configuration, read from T4 JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "search_spaces/bound_space.h"

namespace knobwise {

/// What trials of a space gave, on one device. A value type.
struct Recording {
  std::string source;  ///< File name, for people.
  /// By index within the space, in the recording's own unit; infinite where the trial failed or none was
  /// recorded.
  std::vector<double> times;
  std::uint64_t failures = 0;    ///< Recorded as failed.
  std::uint64_t unrecorded = 0;  ///< Valid in the space and absent from the recording.
  std::uint64_t foreign = 0;     ///< Recorded and not valid in the space; left out.
};

/// Reads T4 JSON, plain or compressed by gzip: of each result the value of its objective (the measurement
/// that `objectives` names first, else the first one). A result whose `invalidity` is not "correct", or whose
/// value is no positive number, counts as failed. Throws UserError for a file that is not T4, that fits no
/// configuration of the space, or in which everything failed, and for a space too large to hold a time for
/// each configuration.
Recording load_recording(const std::string& path, const BoundSpace& space);

}  // namespace knobwise
