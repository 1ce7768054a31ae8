// What a BoundSpace shares among its copies. Internal to search_spaces/.
#pragma once

#include <string>
#include <vector>

#include "search_spaces/bound_space.h"
#include "search_spaces/decision_diagram.h"
#include "search_spaces/space.h"

namespace knobwise {

struct BoundSpace::Data {
  std::string name;
  std::vector<Knob> knobs;
  std::vector<Constraint> constraints;
  Names constants;
  Positions defaults;
  DecisionDiagram diagram;
  /// If there are no valid configurations: the constraint that excludes the last of them.
  std::string why_empty;
  /// For each knob the positions that occur in some valid configuration, ascending.
  std::vector<std::vector<std::uint32_t>> used;
};

}  // namespace knobwise
