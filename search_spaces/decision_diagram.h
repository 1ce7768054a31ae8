// The set of valid configurations as a reduced, ordered decision diagram. Internal to search_spaces/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search_spaces/solver.h"

namespace knobwise {

/// Layers are knobs; a node stands for all choices so far that leave the same choices open, and has one edge
/// for each value that some valid configuration continues with. Every path from the root to the end is a
/// valid configuration, and the sum of `before` along it is its index.
class DecisionDiagram {
 public:
  struct Edge {
    std::uint64_t before;    // valid configurations under the node's earlier edges
    std::uint32_t position;  // of the value in the knob's list
    std::uint32_t child;     // node in the next layer
  };

  struct Layer {
    std::uint32_t knob = 0;
    std::vector<std::uint32_t> first = {0};  // edges of node i: first[i] .. first[i+1]
    std::vector<Edge> edges;                 // of one node: ascending positions

    std::span<const Edge> node(std::uint32_t i) const {
      return std::span(edges).subspan(first[i], first[i + 1] - first[i]);
    }
  };

  DecisionDiagram() = default;
  /// The layers that solve() gave. Throws UserError for more than 2^64-1 configurations.
  explicit DecisionDiagram(std::vector<SolverLayer> solved);

  std::uint64_t size() const { return size_; }
  /// None if the set is empty. The root is node 0 of the first.
  const std::vector<Layer>& layers() const { return layers_; }

 private:
  std::uint64_t size_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace knobwise
