// Construction: order the knobs, expand layer by layer while each constraint prunes as soon as its knobs are
// chosen, then drop dead ends and merge equal nodes from the last layer up.
#include "search_spaces/decision_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace knobwise {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;
// Edges of one layer before reduction: 2 GiB of them.
constexpr std::size_t kMaximumEdges = std::size_t{1} << 28;
// Entries of a constraint's table: beyond this, evaluating again is cheaper than the memory.
constexpr std::uint64_t kMaximumTable = std::uint64_t{1} << 20;

/// A set of positions in one knob's list of values.
using Mask = std::vector<std::uint64_t>;

Mask full_mask(std::size_t size) {
  Mask mask((size + 63) / 64, ~std::uint64_t{0});
  if (size % 64 != 0) mask.back() = (std::uint64_t{1} << (size % 64)) - 1;
  return mask;
}

template <class Visit>
void for_each_bit(const Mask& mask, Visit visit) {
  for (std::size_t word = 0; word < mask.size(); ++word) {
    for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(bits))));
    }
  }
}

std::size_t count(const Mask& mask) {
  std::size_t total = 0;
  for (const std::uint64_t word : mask) total += static_cast<std::size_t>(std::popcount(word));
  return total;
}

bool is_empty(const Mask& mask) {
  return std::all_of(mask.begin(), mask.end(), [](std::uint64_t word) { return word == 0; });
}

/// Evaluates constraints on positions.
class Evaluator {
 public:
  explicit Evaluator(const std::vector<Knob>& knobs) : knobs_(knobs), slots_(knobs.size()) {
    for (const Knob& knob : knobs) {
      DatumList domain;
      domain.reserve(knob.values.size());
      for (const Value& value : knob.values) domain.push_back(view(value));
      domains_.push_back(std::move(domain));
    }
  }

  std::size_t domain_size(std::uint32_t knob) const { return domains_[knob].size(); }
  void choose(std::uint32_t knob, std::uint32_t position) { slots_[knob] = domains_[knob][position]; }

  /// Removes the positions of `knob` for which the constraint fails, given the choices of its other knobs.
  void filter(const Program& constraint, std::uint32_t knob, Mask& mask) {
    for_each_bit(mask, [&](std::uint32_t position) {
      choose(knob, position);
      if (!holds(constraint)) mask[position / 64] &= ~(std::uint64_t{1} << (position % 64));
    });
  }

  bool holds(const Program& constraint) const {
    try {
      return constraint.holds(slots_.data());
    } catch (const UserError& error) {
      std::string choices;
      for (const std::uint32_t slot : constraint.slots()) {
        choices += fmt::format("{}{}={}", choices.empty() ? " with " : ", ", knobs_[slot].name,
                               to_string(to_value(slots_[slot])));
      }
      throw UserError(error.what() + choices, error.text(), error.offset(), error.length());
    }
  }

 private:
  const std::vector<Knob>& knobs_;
  std::vector<DatumList> domains_;
  std::vector<Datum> slots_;
};

/// One constraint at the layer that chooses the last of its knobs. Remembers, for each choice of the others,
/// which positions of the last one it allows.
class LayerConstraint {
 public:
  /// `live`: the knobs whose positions make up a state at that layer.
  LayerConstraint(const Program& program, std::uint32_t knob, const std::vector<std::uint32_t>& live,
                  Evaluator& evaluator)
      : program_(program), knob_(knob), all_(full_mask(evaluator.domain_size(knob))), evaluator_(evaluator) {
    std::uint64_t entries = 1;
    for (std::uint32_t column = 0; column < live.size(); ++column) {
      if (!std::binary_search(program.slots().begin(), program.slots().end(), live[column])) continue;
      columns_.push_back({column, live[column], entries});
      entries = std::min(entries * evaluator.domain_size(live[column]), kMaximumTable + 1);
    }
    if (entries * all_.size() > kMaximumTable) return;
    status_.assign(entries, Status::unknown);
    masks_.resize(entries * all_.size());
  }

  /// Removes from `mask` what the constraint forbids in a state.
  void apply(const std::uint32_t* state, Mask& mask) {
    if (status_.empty()) return evaluate(state, mask);
    std::uint64_t entry = 0;
    for (const Column& column : columns_) entry += state[column.index] * column.stride;
    if (status_[entry] == Status::unknown) fill(state, entry);
    // Only positions that the other constraints leave may be evaluated, so that one can guard another.
    if (status_[entry] == Status::failing) return evaluate(state, mask);
    for (std::size_t word = 0; word < mask.size(); ++word) mask[word] &= masks_[entry * mask.size() + word];
  }

 private:
  struct Column {
    std::uint32_t index;
    std::uint32_t knob;
    std::uint64_t stride;
  };
  enum class Status : std::uint8_t { unknown, known, failing };

  void evaluate(const std::uint32_t* state, Mask& mask) {
    for (const Column& column : columns_) evaluator_.choose(column.knob, state[column.index]);
    evaluator_.filter(program_, knob_, mask);
  }

  void fill(const std::uint32_t* state, std::uint64_t entry) {
    Mask allowed = all_;
    try {
      evaluate(state, allowed);
    } catch (const UserError&) {
      status_[entry] = Status::failing;
      return;
    }
    status_[entry] = Status::known;
    std::copy(allowed.begin(), allowed.end(),
              masks_.begin() + static_cast<std::ptrdiff_t>(entry * all_.size()));
  }

  const Program& program_;
  std::uint32_t knob_;
  Mask all_;
  Evaluator& evaluator_;
  std::vector<Column> columns_;
  std::vector<Status> status_;  // empty: no table
  std::vector<std::uint64_t> masks_;
};

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// An open-addressing set of numbers 0, 1, 2, ... that stand for things compared and hashed by the caller.
class NumberTable {
 public:
  NumberTable() : cells_(64, kNone) {}

  /// The number of an equal thing; kNone if there is none, and then `next` has been inserted.
  template <class Equal>
  std::uint32_t find_or_insert(std::uint64_t hash, std::uint32_t next, Equal equal) {
    if (hashes_.size() * 2 >= cells_.size()) grow();
    std::size_t cell = hash & (cells_.size() - 1);
    while (cells_[cell] != kNone) {
      if (hashes_[cells_[cell]] == hash && equal(cells_[cell])) return cells_[cell];
      cell = (cell + 1) & (cells_.size() - 1);
    }
    cells_[cell] = next;
    hashes_.push_back(hash);
    return kNone;
  }

 private:
  void grow() {
    std::vector<std::uint32_t> cells(cells_.size() * 4, kNone);
    for (std::uint32_t number = 0; number < hashes_.size(); ++number) {
      std::size_t cell = hashes_[number] & (cells.size() - 1);
      while (cells[cell] != kNone) cell = (cell + 1) & (cells.size() - 1);
      cells[cell] = number;
    }
    cells_ = std::move(cells);
  }

  std::vector<std::uint32_t> cells_;
  std::vector<std::uint64_t> hashes_;
};

/// The states of one layer: rows of equal width, each the positions of the knobs that constraints still to
/// come depend on.
class States {
 public:
  explicit States(std::size_t width) : width_(width) {}

  std::uint32_t size() const { return size_; }
  const std::uint32_t* row(std::uint32_t state) const { return rows_.data() + state * width_; }

  /// Appends a row that is known to be new.
  std::uint32_t append(const std::vector<std::uint32_t>& row) {
    rows_.insert(rows_.end(), row.begin(), row.end());
    return size_++;
  }

  /// The state with this row, new or not.
  std::uint32_t intern(const std::vector<std::uint32_t>& row) {
    std::uint64_t hash = width_;
    for (const std::uint32_t position : row) hash = mix(hash, position);
    const std::uint32_t found = table_.find_or_insert(hash, size_, [&](std::uint32_t state) {
      return std::equal(row.begin(), row.end(), this->row(state));
    });
    return found != kNone ? found : append(row);
  }

 private:
  std::size_t width_;
  std::uint32_t size_ = 0;
  std::vector<std::uint32_t> rows_;
  NumberTable table_;
};

/// A layer before reduction: it may hold dead ends.
struct RawLayer {
  struct Edge {
    std::uint32_t position;
    std::uint32_t child;
  };
  std::uint32_t knob = 0;
  std::vector<std::uint32_t> first = {0};
  std::vector<Edge> edges;
};

/// The order in which to choose knobs: cheap constraints are completed first, connected ones in a row, so
/// that few partial choices are open at any time; knobs without constraints come last.
class KnobOrder {
 public:
  KnobOrder(const std::vector<Mask>& allowed, const std::vector<const Program*>& constraints)
      : is_placed_(allowed.size(), false) {
    for (const Mask& mask : allowed) sizes_.push_back(count(mask));
    std::vector<const Program*> pending = constraints;
    while (!pending.empty()) {
      const auto next =
          std::min_element(pending.begin(), pending.end(), [&](const Program* a, const Program* b) {
            return std::pair(!is_connected(*a), cost(*a)) < std::pair(!is_connected(*b), cost(*b));
          });
      place_knobs_of(**next);
      pending.erase(next);
    }
    for (std::uint32_t knob = 0; knob < sizes_.size(); ++knob) place(knob);
  }

  std::vector<std::uint32_t> order;

 private:
  bool is_connected(const Program& constraint) const {
    return std::any_of(constraint.slots().begin(), constraint.slots().end(),
                       [&](std::uint32_t knob) { return is_placed_[knob]; });
  }

  // How many choices it takes to complete the constraint.
  double cost(const Program& constraint) const {
    double product = 1;
    for (const std::uint32_t knob : constraint.slots()) {
      if (!is_placed_[knob]) product *= static_cast<double>(sizes_[knob]);
    }
    return product;
  }

  // The knob with the most values last: its values are checked together, without a state for each.
  void place_knobs_of(const Program& constraint) {
    std::vector<std::uint32_t> knobs = constraint.slots();
    std::stable_sort(knobs.begin(), knobs.end(), [&](auto a, auto b) { return sizes_[a] < sizes_[b]; });
    for (const std::uint32_t knob : knobs) place(knob);
  }

  void place(std::uint32_t knob) {
    if (is_placed_[knob]) return;
    is_placed_[knob] = true;
    order.push_back(knob);
  }

  std::vector<std::size_t> sizes_;
  std::vector<bool> is_placed_;
};

class Solver {
 public:
  Solver(const std::vector<Knob>& knobs, const std::vector<Program>& constraints) : evaluator_(knobs) {
    for (const Knob& knob : knobs) allowed_.push_back(full_mask(knob.values.size()));
    for (const Program& constraint : constraints) {
      if (constraint.slots().empty()) {
        is_possible_ = is_possible_ && evaluator_.holds(constraint);
      } else if (constraint.slots().size() == 1) {
        const std::uint32_t knob = constraint.slots()[0];
        evaluator_.filter(constraint, knob, allowed_[knob]);
      } else {
        constraints_.push_back(&constraint);
      }
    }
  }

  /// Empty if there are no valid configurations; otherwise a layer for each knob and the first layer has one
  /// state.
  std::vector<RawLayer> expand() {
    std::vector<RawLayer> layers;
    if (!is_possible_) return layers;
    const std::vector<std::uint32_t> order = KnobOrder(allowed_, constraints_).order;
    std::vector<const Program*> pending = constraints_;
    std::vector<std::uint32_t> live;
    States states(0);
    states.append({});
    std::vector<bool> is_chosen(order.size(), false);
    for (const std::uint32_t knob : order) {
      is_chosen[knob] = true;
      const auto complete =
          std::stable_partition(pending.begin(), pending.end(), [&](const Program* constraint) {
            return !std::all_of(constraint->slots().begin(), constraint->slots().end(),
                                [&](std::uint32_t slot) { return is_chosen[slot]; });
          });
      std::vector<LayerConstraint> checks;
      for (auto it = complete; it != pending.end(); ++it) checks.emplace_back(**it, knob, live, evaluator_);
      pending.erase(complete, pending.end());
      layers.push_back(expand_layer(knob, checks, pending, live, states));
      if (layers.back().edges.empty()) return {};
    }
    return layers;
  }

 private:
  /// Replaces `live` and `states` by those of the next layer.
  RawLayer expand_layer(std::uint32_t knob, std::vector<LayerConstraint>& checks,
                        const std::vector<const Program*>& pending, std::vector<std::uint32_t>& live,
                        States& states) {
    const std::vector<std::uint32_t> kept = kept_columns(live, pending);
    const bool keeps_knob = is_needed(knob, pending);
    const bool keeps_all = kept.size() == live.size();
    States next(kept.size() + (keeps_knob ? 1 : 0));
    RawLayer layer;
    layer.knob = knob;
    std::vector<std::uint32_t> row(kept.size() + (keeps_knob ? 1 : 0));
    Mask mask;
    for (std::uint32_t state = 0; state < states.size(); ++state) {
      mask = allowed_[knob];
      for (LayerConstraint& check : checks) check.apply(states.row(state), mask);
      if (!is_empty(mask)) {
        for (std::size_t i = 0; i < kept.size(); ++i) row[i] = states.row(state)[kept[i]];
        const auto child = [&] { return keeps_all ? next.append(row) : next.intern(row); };
        const std::uint32_t shared = keeps_knob ? kNone : child();
        for_each_bit(mask, [&](std::uint32_t position) {
          if (keeps_knob) row.back() = position;
          layer.edges.push_back({position, keeps_knob ? child() : shared});
        });
      }
      layer.first.push_back(static_cast<std::uint32_t>(layer.edges.size()));
      if (layer.edges.size() > kMaximumEdges) {
        throw UserError(
            "the constraints couple so many knobs that the valid configurations do not fit in memory; "
            "split constraints over many knobs or shorten lists of values");
      }
    }
    std::vector<std::uint32_t> next_live;
    for (const std::uint32_t column : kept) next_live.push_back(live[column]);
    if (keeps_knob) next_live.push_back(knob);
    live = std::move(next_live);
    states = std::move(next);
    return layer;
  }

  static bool is_needed(std::uint32_t knob, const std::vector<const Program*>& pending) {
    return std::any_of(pending.begin(), pending.end(), [&](const Program* constraint) {
      return std::binary_search(constraint->slots().begin(), constraint->slots().end(), knob);
    });
  }

  static std::vector<std::uint32_t> kept_columns(const std::vector<std::uint32_t>& live,
                                                 const std::vector<const Program*>& pending) {
    std::vector<std::uint32_t> kept;
    for (std::uint32_t column = 0; column < live.size(); ++column) {
      if (is_needed(live[column], pending)) kept.push_back(column);
    }
    return kept;
  }

  Evaluator evaluator_;
  std::vector<Mask> allowed_;
  std::vector<const Program*> constraints_;  // of two knobs or more
  bool is_possible_ = true;
};

/// Reduces one layer after another, from the last to the first.
class Reducer {
 public:
  DecisionDiagram::Layer reduce(const RawLayer& raw) {
    DecisionDiagram::Layer layer;
    layer.knob = raw.knob;
    std::vector<std::uint64_t> counts;
    std::vector<std::uint32_t> renumbered;
    renumbered.reserve(raw.first.size());
    NumberTable table;
    for (std::size_t node = 0; node + 1 < raw.first.size(); ++node) {
      const std::uint64_t total = append_live_edges(raw, node, layer);
      if (total == 0) {
        renumbered.push_back(kNone);
        continue;
      }
      const auto number = static_cast<std::uint32_t>(layer.first.size() - 1);
      const auto found =
          table.find_or_insert(hash(layer, layer.first.back()), number, [&](std::uint32_t other) {
            return same_edges(layer.node(other), std::span(layer.edges).subspan(layer.first.back()));
          });
      if (found == kNone) {
        layer.first.push_back(static_cast<std::uint32_t>(layer.edges.size()));
        counts.push_back(total);
      } else {
        layer.edges.resize(layer.first.back());
      }
      renumbered.push_back(found == kNone ? number : found);
    }
    layer.edges.shrink_to_fit();
    counts_ = std::move(counts);
    renumbered_ = std::move(renumbered);
    return layer;
  }

  /// The number of configurations below the first node of the layer reduced last.
  std::uint64_t total() const { return renumbered_[0] == kNone ? 0 : counts_[renumbered_[0]]; }

 private:
  using Edge = DecisionDiagram::Edge;

  std::uint64_t append_live_edges(const RawLayer& raw, std::size_t node,
                                  DecisionDiagram::Layer& layer) const {
    std::uint64_t total = 0;
    for (std::uint32_t i = raw.first[node]; i < raw.first[node + 1]; ++i) {
      const std::uint32_t child = renumbered_[raw.edges[i].child];
      if (child == kNone) continue;
      layer.edges.push_back({total, raw.edges[i].position, child});
      if (__builtin_add_overflow(total, counts_[child], &total)) {
        throw UserError("more than 2^64-1 valid configurations; shorten lists of values or add constraints");
      }
    }
    return total;
  }

  static std::uint64_t hash(const DecisionDiagram::Layer& layer, std::uint32_t first) {
    std::uint64_t result = 0;
    for (const Edge& edge : std::span(layer.edges).subspan(first)) {
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

DecisionDiagram DecisionDiagram::build(const std::vector<Knob>& knobs,
                                       const std::vector<Program>& constraints) {
  DecisionDiagram diagram;
  std::vector<RawLayer> raw = Solver(knobs, constraints).expand();
  if (raw.size() != knobs.size()) return diagram;
  Reducer reducer;
  diagram.layers_.resize(raw.size());
  while (!raw.empty()) {
    diagram.layers_[raw.size() - 1] = reducer.reduce(raw.back());
    raw.pop_back();
  }
  diagram.size_ = reducer.total();
  if (diagram.size_ == 0) diagram.layers_.clear();
  return diagram;
}

}  // namespace knobwise
