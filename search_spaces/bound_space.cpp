#include "search_spaces/bound_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <set>
#include <span>
#include <stdexcept>
#include <tuple>
#include <unordered_set>

#include "search_spaces/bound_space_data.h"
#include "search_spaces/user_error.h"
#include "search_spaces/violation.h"

namespace knobwise {
namespace {

using Edge = DecisionDiagram::Edge;
using Layer = DecisionDiagram::Layer;

/// The edge with this position; null if the node has none.
const Edge* find_edge(std::span<const Edge> node, std::uint32_t position) {
  const auto found =
      std::lower_bound(node.begin(), node.end(), position,
                       [](const Edge& edge, std::uint32_t wanted) { return edge.position < wanted; });
  return found != node.end() && found->position == position ? &*found : nullptr;
}

/// Collects the indices of the configurations one knob away from `own`.
class HammingSearch {
 public:
  HammingSearch(const std::vector<Layer>& layers, const Positions& own) : layers_(layers), own_(own) {
    visit(0, 0, 0, false);
  }

  std::vector<std::uint64_t> found;

 private:
  void visit(std::size_t layer, std::uint32_t node, std::uint64_t index, bool differs) {
    if (layer == layers_.size()) {
      if (differs) found.push_back(index);
      return;
    }
    const std::uint32_t own = own_[layers_[layer].knob];
    if (differs) {
      const Edge* same = find_edge(layers_[layer].node(node), own);
      if (same != nullptr) visit(layer + 1, same->child, index + same->before, true);
      return;
    }
    for (const Edge& edge : layers_[layer].node(node)) {
      visit(layer + 1, edge.child, index + edge.before, edge.position != own);
    }
  }

  const std::vector<Layer>& layers_;
  const Positions& own_;
};

/// Collects the indices of the configurations whose positions lie in a box.
class BoxSearch {
 public:
  BoxSearch(const std::vector<Layer>& layers, const Positions& low, const Positions& high)
      : layers_(layers), low_(low), high_(high) {
    visit(0, 0, 0);
  }

  std::vector<std::uint64_t> found;

 private:
  void visit(std::size_t layer, std::uint32_t node, std::uint64_t index) {
    if (layer == layers_.size()) return found.push_back(index);
    const std::uint32_t knob = layers_[layer].knob;
    for (const Edge& edge : layers_[layer].node(node)) {
      if (edge.position >= low_[knob] && edge.position <= high_[knob]) {
        visit(layer + 1, edge.child, index + edge.before);
      }
    }
  }

  const std::vector<Layer>& layers_;
  const Positions& low_;
  const Positions& high_;
};

// std::uniform_int_distribution gives different numbers with different standard libraries.
std::uint64_t uniform_below(std::uint64_t bound, std::mt19937_64& random) {
  const std::uint64_t uneven = (0 - bound) % bound;
  std::uint64_t draw = random();
  while (draw < uneven) draw = random();
  return draw % bound;
}

}  // namespace

const std::string& BoundSpace::name() const {
  return data_->name;
}
const std::vector<Knob>& BoundSpace::knobs() const {
  return data_->knobs;
}
std::uint64_t BoundSpace::size() const {
  return data_->diagram.size();
}

Configuration BoundSpace::configuration(std::uint64_t index) const {
  return configuration(positions(index));
}

Positions BoundSpace::positions(std::uint64_t index) const {
  if (index >= size()) {
    throw std::out_of_range(fmt::format("configuration {} of {} in space `{}`", index, size(), name()));
  }
  Positions result(knobs().size());
  std::uint32_t node = 0;
  for (const Layer& layer : data_->diagram.layers()) {
    const auto edges = layer.node(node);
    const auto next =
        std::upper_bound(edges.begin(), edges.end(), index,
                         [](std::uint64_t wanted, const Edge& edge) { return wanted < edge.before; });
    const Edge& edge = *(next - 1);
    index -= edge.before;
    result[layer.knob] = edge.position;
    node = edge.child;
  }
  return result;
}

Configuration BoundSpace::configuration(const Positions& positions) const {
  std::vector<std::pair<std::string, Value>> values;
  values.reserve(knobs().size());
  for (std::size_t i = 0; i < knobs().size(); ++i) {
    values.emplace_back(knobs()[i].name, knobs()[i].values.at(positions.at(i)));
  }
  return Configuration(std::move(values));
}

std::optional<std::uint64_t> BoundSpace::index_of(const Configuration& configuration) const {
  if (configuration.knobs().size() != knobs().size()) return std::nullopt;
  Positions positions;
  positions.reserve(knobs().size());
  for (const Knob& knob : knobs()) {
    const Value* value = configuration.find(knob.name);
    const std::optional<std::uint32_t> position = value != nullptr ? position_of(knob, *value) : std::nullopt;
    if (!position) return std::nullopt;
    positions.push_back(*position);
  }
  return index_of(positions);
}

std::optional<std::uint64_t> BoundSpace::index_of(const Positions& positions) const {
  if (empty() || positions.size() != knobs().size()) return std::nullopt;
  std::uint64_t index = 0;
  std::uint32_t node = 0;
  for (const Layer& layer : data_->diagram.layers()) {
    const Edge* edge = find_edge(layer.node(node), positions[layer.knob]);
    if (edge == nullptr) return std::nullopt;
    index += edge->before;
    node = edge->child;
  }
  return index;
}

std::optional<std::string> BoundSpace::violation(const Configuration& configuration) const {
  return violation_of(knobs(), data_->constraints, data_->constants, configuration);
}

std::uint64_t BoundSpace::sample(std::mt19937_64& random) const {
  require_configurations();
  return uniform_below(size(), random);
}

std::vector<std::uint64_t> BoundSpace::sample(std::uint64_t count, std::mt19937_64& random) const {
  // Floyd's algorithm: as many draws as results, whatever the size of the space.
  count = std::min(count, size());
  std::vector<std::uint64_t> result;
  std::unordered_set<std::uint64_t> chosen;
  for (std::uint64_t last = size() - count; last < size(); ++last) {
    const std::uint64_t draw = last == UINT64_MAX ? random() : uniform_below(last + 1, random);
    result.push_back(chosen.insert(draw).second ? draw : last);
    chosen.insert(result.back());
  }
  for (std::size_t i = result.size(); i > 1; --i) std::swap(result[i - 1], result[uniform_below(i, random)]);
  return result;
}

std::vector<std::uint64_t> BoundSpace::neighbours(std::uint64_t index, Neighbourhood neighbourhood) const {
  const Positions own = positions(index);
  const std::vector<Layer>& layers = data_->diagram.layers();
  if (neighbourhood == Neighbourhood::hamming) return HammingSearch(layers, own).found;
  Positions low = own;
  Positions high = own;
  for (std::size_t knob = 0; knob < own.size(); ++knob) {
    if (neighbourhood == Neighbourhood::strictly_adjacent) {
      low[knob] -= own[knob] > 0 ? 1 : 0;
      ++high[knob];
      continue;
    }
    const std::vector<std::uint32_t>& used = data_->used[knob];
    const auto here = std::lower_bound(used.begin(), used.end(), own[knob]);
    if (here != used.begin()) low[knob] = *(here - 1);
    if (here + 1 != used.end()) high[knob] = *(here + 1);
  }
  std::vector<std::uint64_t> found = BoxSearch(layers, low, high).found;
  std::erase(found, index);
  return found;
}

std::uint64_t BoundSpace::nearest(const Positions& positions) const {
  require_configurations();
  // Best-first over nodes: the first complete path is a nearest one. Ties go to deeper layers, then to lower
  // indices.
  using Candidate = std::tuple<std::uint64_t, std::size_t, std::uint64_t,
                               std::uint32_t>;  // steps, layers left, index, node
  const std::vector<Layer>& layers = data_->diagram.layers();
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> open;
  std::set<std::pair<std::size_t, std::uint32_t>> visited;
  open.emplace(0, layers.size(), 0, 0);
  while (true) {
    const auto [steps, left, index, node] = open.top();
    open.pop();
    if (left == 0) return index;
    if (!visited.emplace(left, node).second) continue;
    const Layer& layer = layers[layers.size() - left];
    const std::uint32_t wanted = positions.at(layer.knob);
    for (const Edge& edge : layer.node(node)) {
      const std::uint32_t distance = std::max(edge.position, wanted) - std::min(edge.position, wanted);
      open.emplace(steps + distance, left - 1, index + edge.before, edge.child);
    }
  }
}

std::uint64_t BoundSpace::default_index() const {
  return nearest(data_->defaults);
}

void BoundSpace::require_configurations() const {
  if (!empty()) return;
  throw UserError(fmt::format("space `{}` has no valid configuration for this problem and device: {}", name(),
                              data_->why_empty()));
}

}  // namespace knobwise
