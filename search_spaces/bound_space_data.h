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
  /// For each knob the positions that occur in some valid configuration, ascending.
  std::vector<std::vector<std::uint32_t>> used;

  /// If there are no valid configurations: names the first constraint that excludes all that those before it
  /// leave. Solves the space again with more and more constraints, which may take a thousand times as long as
  /// finding it empty.
  std::string why_empty() const;
};

}  // namespace knobwise
