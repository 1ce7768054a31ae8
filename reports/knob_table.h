// The configurations of a group as a table: one column a knob.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/records.h"

namespace knobwise {

/// One knob over all trials.
struct KnobColumn {
  std::string name;
  std::vector<std::string> values;  ///< JSON text; numbers first, ascending, then the rest by text.
  std::vector<std::int32_t>
      value_of;  ///< Per trial an index into values; -1 where the family has no such knob.
};

/// Columns in the order in which the knobs first appear in the trials' canonical configurations.
std::vector<KnobColumn> knob_table(const std::vector<TrialRecord>& trials);

}  // namespace knobwise
