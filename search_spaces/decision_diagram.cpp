// From solved layers to the diagram: dead ends are dropped and equal nodes merged, from the last layer up.
#include "search_spaces/decision_diagram.h"

#include <algorithm>

#include "search_spaces/number_table.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr std::uint32_t kNone = NumberTable::kNone;

using Edge = DecisionDiagram::Edge;
using Layer = DecisionDiagram::Layer;

class Reducer {
 public:
  /// To be called for the last layer first.
  Layer reduce(const SolverLayer& solved) {
    Layer layer;
    layer.knob = solved.knob;
    std::vector<std::uint64_t> counts;
    std::vector<std::uint32_t> renumbered;
    renumbered.reserve(solved.first.size());
    NumberTable table;
    for (std::size_t state = 0; state + 1 < solved.first.size(); ++state) {
      const std::uint64_t total = append_live_edges(solved, state, layer);
      if (total == 0) {
        renumbered.push_back(kNone);
        continue;
      }
      const std::uint32_t begin = layer.first.back();
      const auto number = static_cast<std::uint32_t>(layer.first.size() - 1);
      const auto found = table.find_or_insert(hash(layer, begin), number, [&](std::uint32_t other) {
        return same_edges(layer.node(other), std::span(layer.edges).subspan(begin));
      });
      if (found == kNone) {
        layer.first.push_back(static_cast<std::uint32_t>(layer.edges.size()));
        counts.push_back(total);
      } else {
        layer.edges.resize(begin);
      }
      renumbered.push_back(found == kNone ? number : found);
    }
    layer.edges.shrink_to_fit();
    counts_ = std::move(counts);
    renumbered_ = std::move(renumbered);
    return layer;
  }

  /// The number of configurations below the first state of the layer reduced last.
  std::uint64_t total() const { return renumbered_[0] == kNone ? 0 : counts_[renumbered_[0]]; }

 private:
  std::uint64_t append_live_edges(const SolverLayer& solved, std::size_t state, Layer& layer) const {
    std::uint64_t total = 0;
    for (std::uint32_t i = solved.first[state]; i < solved.first[state + 1]; ++i) {
      const std::uint32_t child = renumbered_[solved.edges[i].child];
      if (child == kNone) continue;
      layer.edges.push_back({total, solved.edges[i].position, child});
      if (__builtin_add_overflow(total, counts_[child], &total)) {
        throw UserError("more than 2^64-1 valid configurations; shorten lists of values or add constraints");
      }
    }
    return total;
  }

  static std::uint64_t hash(const Layer& layer, std::uint32_t begin) {
    std::uint64_t result = 0;
    for (const Edge& edge : std::span(layer.edges).subspan(begin)) {
      result = mix(result, std::uint64_t{edge.position} << 32 | edge.child);
    }
    return result;
  }

  static bool same_edges(std::span<const Edge> left, std::span<const Edge> right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const Edge& a, const Edge& b) {
      return a.position == b.position && a.child == b.child;
    });
  }

  // Of the layer below: at first the end, one node that one configuration reaches.
  std::vector<std::uint64_t> counts_ = {1};
  std::vector<std::uint32_t> renumbered_ = {0};
};

}  // namespace

DecisionDiagram::DecisionDiagram(std::vector<SolverLayer> solved) {
  if (solved.empty()) return;
  Reducer reducer;
  layers_.resize(solved.size());
  while (!solved.empty()) {
    layers_[solved.size() - 1] = reducer.reduce(solved.back());
    solved.pop_back();
  }
  size_ = reducer.total();
  if (size_ == 0) layers_.clear();
}

}  // namespace knobwise
