// Finds all choices that meet the constraints, layer by layer. Internal to search_spaces/.
#pragma once

#include <cstdint>
#include <vector>

#include "search_spaces/bound_space.h"
#include "search_spaces/program.h"

namespace knobwise {

/// The choices for one knob, given each state of the choices before it. Some may turn out to be dead ends.
struct SolverLayer {
  struct Edge {
    std::uint32_t position;  // of the value in the knob's list
    std::uint32_t child;     // state of the next layer
  };
  std::uint32_t knob = 0;
  std::vector<std::uint32_t> first = {0};  // edges of state i: first[i] .. first[i+1]
  std::vector<Edge> edges;
};

/// What a state remembers of the choices so far.
enum class Memory {
  parts,  ///< the values of the largest parts of the constraints still to come: few states, but a part may be
          ///< computed that the constraint would have skipped, and the error it gives ends the search
  knobs,  ///< the knobs in constraints still to come: each constraint is evaluated as a whole, and only where
          ///< those checked before it hold
};

/// The layers in the order in which knobs are chosen; none if no choice meets the constraints, whose slots
/// are numbers of knobs. Throws UserError for a constraint that cannot be evaluated and for more choices than
/// memory holds, and with Memory::parts OperationError when a part is neither a number nor a boolean.
std::vector<SolverLayer> solve(const std::vector<Knob>& knobs, const std::vector<Program>& constraints,
                               Memory memory);

}  // namespace knobwise
