#include "search_spaces/solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "search_spaces/knob_order.h"
#include "search_spaces/number_table.h"
#include "search_spaces/position_mask.h"

namespace knobwise {
namespace {

constexpr std::uint32_t kNone = NumberTable::kNone;
// Edges of one layer: 2 GiB of them.
constexpr std::size_t kMaximumEdges = std::size_t{1} << 28;
// Entries of a table of results: beyond this, evaluating again is cheaper than the memory.
constexpr std::uint64_t kMaximumTable = std::uint64_t{1} << 20;

/// One value that states remember: of a knob, or of a part of a constraint.
class Column {
 public:
  Column(const Program& program, NodeId part)
      : program_(&program), part_(part), slot_(program.slot_of(part)) {}

  bool is_knob(std::uint32_t knob) const { return slot_ == knob; }
  std::optional<std::uint32_t> slot() const { return slot_; }
  bool is_part(const Program& program, NodeId part) const {
    return slot_ ? program.slot_of(part) == slot_ : program_ == &program && part_ == part;
  }
  const Program& program() const { return *program_; }
  NodeId part() const { return part_; }

  std::size_t size() const { return values_.size(); }
  const Datum& value(std::uint32_t id) const { return values_[id]; }
  void set_values(DatumList values) { values_ = std::move(values); }

  /// The id of a number, new or not. 1, 1.0 and True have ids of their own: they may behave differently.
  std::uint32_t intern(const Datum& number) {
    if (!number.is_number()) throw OperationError("a part of a constraint is neither a number nor a boolean");
    const auto bits = std::bit_cast<std::uint64_t>(number.integer);
    const auto next = static_cast<std::uint32_t>(values_.size());
    const std::uint32_t found = table_.find_or_insert(
        mix(static_cast<std::uint64_t>(number.kind), bits), next, [&](std::uint32_t id) {
          return values_[id].kind == number.kind && values_[id].integer == number.integer;
        });
    if (found != kNone) return found;
    values_.push_back(number);
    return next;
  }

 private:
  const Program* program_;
  NodeId part_;
  std::optional<std::uint32_t> slot_;
  DatumList values_;
  NumberTable table_;
};

using Columns = std::vector<Column>;

/// Computes a part of a constraint from a state and a value of the knob chosen at this layer.
class LayerFunction {
 public:
  LayerFunction(const Program& program, NodeId part, const Columns& columns, std::uint32_t knob,
                const DatumList& domain)
      : columns_(columns),
        domain_(domain),
        program_(program.specialised(part, [&](NodeId id) { return slot(program, id, knob); })),
        slots_(columns.size() + 1) {
    for (const std::uint32_t slot : program_.slots()) {
      if (slot == columns.size()) continue;
      inputs_.push_back({slot, entries_});
      entries_ = std::min(entries_ * columns[slot].size(), kMaximumTable + 1);
    }
  }

  /// The number of different inputs that states give, or more than kMaximumTable.
  std::uint64_t entries() const { return entries_; }

  /// Which of these inputs a state gives.
  std::uint64_t entry(const std::uint32_t* state) const {
    std::uint64_t result = 0;
    for (const Input& input : inputs_) result += state[input.column] * input.stride;
    return result;
  }

  void set_state(const std::uint32_t* state) {
    for (const Input& input : inputs_)
      slots_[input.column] = columns_[input.column].value(state[input.column]);
  }

  Datum value(std::uint32_t position, Arena& arena) {
    slots_.back() = domain_[position];
    return program_.evaluate(slots_.data(), arena);
  }

  /// The values of the columns at the time of an error, for its message.
  std::string inputs(const std::vector<Knob>& knobs, std::uint32_t knob) const {
    std::string text = fmt::format(" with {}={}", knobs[knob].name, to_string(to_value(slots_.back())));
    for (const Input& input : inputs_) {
      const std::optional<std::uint32_t> slot = columns_[input.column].slot();
      if (slot) text += fmt::format(", {}={}", knobs[*slot].name, to_string(to_value(slots_[input.column])));
    }
    return text;
  }

 private:
  struct Input {
    std::uint32_t column;
    std::uint64_t stride;
  };

  // The last slot is the knob of this layer.
  std::optional<std::uint32_t> slot(const Program& program, NodeId id, std::uint32_t knob) const {
    if (program.slot_of(id) == knob) return static_cast<std::uint32_t>(columns_.size());
    for (std::uint32_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].is_part(program, id)) return i;
    }
    return std::nullopt;
  }

  const Columns& columns_;
  const DatumList& domain_;
  Program program_;
  std::vector<Datum> slots_;
  std::vector<Input> inputs_;
  std::uint64_t entries_ = 1;
};

/// A constraint at the layer that chooses the last of its knobs. Remembers, for each input, the positions it
/// allows.
class LayerConstraint {
 public:
  LayerConstraint(LayerFunction function, std::size_t domain, const std::vector<Knob>& knobs,
                  std::uint32_t knob)
      : function_(std::move(function)), all_(full_mask(domain)), knobs_(knobs), knob_(knob) {
    if (function_.entries() * all_.size() > kMaximumTable) return;
    status_.assign(function_.entries(), Status::unknown);
    masks_.resize(function_.entries() * all_.size());
  }

  /// Removes from `mask` what the constraint forbids in a state.
  void apply(const std::uint32_t* state, PositionMask& mask) {
    if (status_.empty()) return evaluate(state, mask);
    const std::uint64_t entry = function_.entry(state);
    if (status_[entry] == Status::unknown) fill(state, entry);
    // Only positions that the other constraints leave may be evaluated, so that one can guard another.
    if (status_[entry] == Status::failing) return evaluate(state, mask);
    for (std::size_t word = 0; word < mask.size(); ++word) mask[word] &= masks_[entry * mask.size() + word];
  }

 private:
  enum class Status : std::uint8_t { unknown, known, failing };

  void evaluate(const std::uint32_t* state, PositionMask& mask) {
    function_.set_state(state);
    for_each_position(mask, [&](std::uint32_t position) {
      if (!holds(position)) remove(mask, position);
    });
  }

  bool holds(std::uint32_t position) {
    try {
      Arena arena;
      return truth(function_.value(position, arena));
    } catch (const UserError& error) {
      throw UserError(error.what() + function_.inputs(knobs_, knob_), error.text(), error.offset(),
                      error.length());
    }
  }

  void fill(const std::uint32_t* state, std::uint64_t entry) {
    PositionMask allowed = all_;
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

  LayerFunction function_;
  PositionMask all_;
  const std::vector<Knob>& knobs_;
  std::uint32_t knob_;
  std::vector<Status> status_;  // empty: no table
  std::vector<std::uint64_t> masks_;
};

/// A part of a constraint that becomes computable at this layer. Remembers the ids of its values.
class LayerPart {
 public:
  LayerPart(LayerFunction function, std::uint32_t target, std::size_t domain)
      : function_(std::move(function)), target_(target), domain_(domain) {
    if (function_.entries() * domain_ <= kMaximumTable) ids_.assign(function_.entries() * domain_, kNone);
  }

  /// Its column among those of the next layer.
  std::uint32_t target() const { return target_; }

  std::uint32_t id(const std::uint32_t* state, std::uint32_t position, Column& column) {
    if (ids_.empty()) return compute(state, position, column);
    std::uint32_t& known = ids_[function_.entry(state) * domain_ + position];
    if (known == kNone) known = compute(state, position, column);
    return known;
  }

 private:
  std::uint32_t compute(const std::uint32_t* state, std::uint32_t position, Column& column) {
    Arena arena;
    function_.set_state(state);
    return column.intern(function_.value(position, arena));
  }

  LayerFunction function_;
  std::uint32_t target_;
  std::size_t domain_;
  std::vector<std::uint32_t> ids_;  // empty: no table
};

/// Rows of equal width: for each column the id of its value.
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
    for (const std::uint32_t id : row) hash = mix(hash, id);
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

/// From the states of one layer to those of the next.
class Transition {
 public:
  Transition(std::uint32_t knob, const DatumList& domain, const Columns& from, Columns& to)
      : to_(to), states_(to.size()), row_(to.size()) {
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i < to.size(); ++i) {
      const auto same = std::find_if(from.begin(), from.end(), [&](const Column& column) {
        return column.is_part(to[i].program(), to[i].part());
      });
      if (same != from.end()) {
        kept_.push_back({static_cast<std::uint32_t>(same - from.begin()), i});
        to[i] = *same;
        ++kept;
      } else if (to[i].is_knob(knob)) {
        to[i].set_values(domain);
        chosen_ = i;
      } else {
        parts_.emplace_back(LayerFunction(to[i].program(), to[i].part(), from, knob, domain), i,
                            domain.size());
      }
    }
    is_injective_ = kept == from.size() && (chosen_ != kNone || parts_.empty());
  }

  /// Adds the edges of one state.
  void add_edges(const std::uint32_t* state, const PositionMask& mask,
                 std::vector<SolverLayer::Edge>& edges) {
    for (const auto& [source, target] : kept_) row_[target] = state[source];
    const bool depends_on_choice = chosen_ != kNone || !parts_.empty();
    const std::uint32_t shared = depends_on_choice ? kNone : child();
    for_each_position(mask, [&](std::uint32_t position) {
      if (chosen_ != kNone) row_[chosen_] = position;
      for (LayerPart& part : parts_) row_[part.target()] = part.id(state, position, to_[part.target()]);
      edges.push_back({position, depends_on_choice ? child() : shared});
    });
  }

  States take_states() { return std::move(states_); }

 private:
  struct Kept {
    std::uint32_t source;
    std::uint32_t target;
  };

  std::uint32_t child() { return is_injective_ ? states_.append(row_) : states_.intern(row_); }

  Columns& to_;
  States states_;
  std::vector<std::uint32_t> row_;
  std::vector<Kept> kept_;
  std::vector<LayerPart> parts_;
  std::uint32_t chosen_ = kNone;  // the column of the knob itself
  bool is_injective_ = false;     // different choices give different rows
};

class Solver {
 public:
  Solver(const std::vector<Knob>& knobs, const std::vector<Program>& constraints, Memory memory)
      : knobs_(knobs), memory_(memory), is_chosen_(knobs.size(), false) {
    for (const Knob& knob : knobs) {
      DatumList domain;
      domain.reserve(knob.values.size());
      for (const Value& value : knob.values) domain.push_back(view(value));
      domains_.push_back(std::move(domain));
      allowed_.push_back(full_mask(knob.values.size()));
    }
    for (const Program& constraint : constraints) add(constraint);
  }

  std::vector<SolverLayer> solve() {
    std::vector<SolverLayer> layers;
    if (!is_possible_) return layers;
    std::vector<std::size_t> sizes;
    for (const PositionMask& mask : allowed_) sizes.push_back(count(mask));
    Columns columns;
    States states(0);
    states.append({});
    for (const std::uint32_t knob : order_knobs(sizes, pending_)) {
      layers.push_back(choose(knob, columns, states));
      if (layers.back().edges.empty()) return {};
    }
    return layers;
  }

 private:
  void add(const Program& constraint) {
    if (constraint.slots().size() > 1) {
      pending_.push_back(&constraint);
    } else if (constraint.slots().size() == 1) {
      const std::uint32_t knob = constraint.slots()[0];
      constraint_at(constraint, {}, knob).apply(nullptr, allowed_[knob]);
    } else {
      is_possible_ = is_possible_ && constraint.holds(nullptr);
    }
  }

  LayerConstraint constraint_at(const Program& constraint, const Columns& columns, std::uint32_t knob) const {
    return LayerConstraint(LayerFunction(constraint, constraint.root(), columns, knob, domains_[knob]),
                           domains_[knob].size(), knobs_, knob);
  }

  /// Replaces columns and states by those after the choice of `knob`.
  SolverLayer choose(std::uint32_t knob, Columns& columns, States& states) {
    is_chosen_[knob] = true;
    std::vector<LayerConstraint> checks;
    std::erase_if(pending_, [&](const Program* constraint) {
      const bool is_complete = std::all_of(constraint->slots().begin(), constraint->slots().end(),
                                           [&](std::uint32_t slot) { return is_chosen_[slot]; });
      if (is_complete) checks.push_back(constraint_at(*constraint, columns, knob));
      return is_complete;
    });
    Columns next_columns = remembered_columns();
    Transition transition(knob, domains_[knob], columns, next_columns);
    SolverLayer layer;
    layer.knob = knob;
    PositionMask mask;
    for (std::uint32_t state = 0; state < states.size(); ++state) {
      mask = allowed_[knob];
      for (LayerConstraint& check : checks) check.apply(states.row(state), mask);
      if (!is_empty(mask)) transition.add_edges(states.row(state), mask, layer.edges);
      layer.first.push_back(static_cast<std::uint32_t>(layer.edges.size()));
      if (layer.edges.size() > kMaximumEdges) {
        throw UserError(
            "the constraints couple so many knobs that the choices do not fit in memory; split constraints "
            "over many "
            "knobs or shorten lists of values");
      }
    }
    states = transition.take_states();
    columns = std::move(next_columns);
    return layer;
  }

  /// What the constraints still to come need to know of the choices made.
  Columns remembered_columns() const {
    Columns columns;
    for (const Program* constraint : pending_) {
      for (const NodeId part : constraint->computable_parts(is_chosen_, memory_ == Memory::knobs)) {
        const bool is_known = std::any_of(columns.begin(), columns.end(), [&](const Column& column) {
          return column.is_part(*constraint, part);
        });
        if (!is_known) columns.emplace_back(*constraint, part);
      }
    }
    return columns;
  }

  const std::vector<Knob>& knobs_;
  Memory memory_;
  std::vector<DatumList> domains_;
  std::vector<PositionMask> allowed_;
  std::vector<const Program*> pending_;  // of two knobs or more, not yet checked
  std::vector<bool> is_chosen_;
  bool is_possible_ = true;
};

}  // namespace

std::vector<SolverLayer> solve(const std::vector<Knob>& knobs, const std::vector<Program>& constraints,
                               Memory memory) {
  return Solver(knobs, constraints, memory).solve();
}

}  // namespace knobwise
