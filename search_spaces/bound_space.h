// The valid configurations of a search space for one problem and device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "search_spaces/value.h"

namespace knobwise {

/// A knob with the values it may take, in the order of its space: no two are equal.
struct Knob {
  std::string name;
  std::vector<Value> values;
};

/// For every knob, in the order of BoundSpace::knobs(), the position of its value in Knob::values.
using Positions = std::vector<std::uint32_t>;

/// Which valid configurations count as next to one another; a configuration is never its own neighbour.
enum class Neighbourhood {
  hamming,   ///< exactly one knob differs, to any other value
  adjacent,  ///< every knob is at most one step away, counting only values that some valid configuration has
  strictly_adjacent,  ///< every knob is at most one step away in its list of values
};

/// The valid configurations, numbered 0 .. size()-1: what a strategy searches.
///
/// They are never listed: the space is held as a decision diagram whose layers are the knobs, so that
/// counting, numbering, sampling and neighbours cost a walk from layer to layer, and products of independent
/// knobs cost a sum of memory. The numbering depends on the space and its constants only: the same on every
/// machine and in every run.
///
/// An immutable value: copies share the diagram, and any number of threads may use them.
class BoundSpace {
 public:
  const std::string& name() const;
  const std::vector<Knob>& knobs() const;

  /// The number of valid configurations.
  std::uint64_t size() const;
  bool empty() const { return size() == 0; }

  /// The configuration of an index; throws std::out_of_range past the end.
  Configuration configuration(std::uint64_t index) const;
  Positions positions(std::uint64_t index) const;
  /// The configuration that positions within the lists of values describe, valid or not.
  Configuration configuration(const Positions& positions) const;

  /// The index of a valid configuration; none if it is not one. Knobs may come in any order; values compare
  /// as in Python (1, 1.0 and true are equal), because exchanged files disagree on types.
  std::optional<std::uint64_t> index_of(const Configuration& configuration) const;
  std::optional<std::uint64_t> index_of(const Positions& positions) const;
  bool contains(const Configuration& configuration) const { return index_of(configuration).has_value(); }

  /// Why a configuration is not valid, for people: the constraint it violates with its reason and the values
  /// at fault, or the knob that is missing, unknown or has a value outside its list. None if it is valid.
  std::optional<std::string> violation(const Configuration& configuration) const;

  /// An index drawn uniformly; throws UserError if the space is empty.
  std::uint64_t sample(std::mt19937_64& random) const;
  /// `count` different indices drawn uniformly, in random order; all of them if there are fewer.
  std::vector<std::uint64_t> sample(std::uint64_t count, std::mt19937_64& random) const;

  /// The neighbours of a valid configuration in ascending order of index.
  std::vector<std::uint64_t> neighbours(std::uint64_t index, Neighbourhood neighbourhood) const;

  /// The valid configuration nearest to positions that may be invalid: the fewest steps, summed over the
  /// knobs; of several, the lowest index. Throws UserError if the space is empty.
  std::uint64_t nearest(const Positions& positions) const;

  /// The configuration of the declared defaults, or the valid one nearest to them; a knob without a default
  /// counts with its first value. Throws UserError if the space is empty.
  std::uint64_t default_index() const;

  /// Throws UserError, which names what excludes everything, if the space is empty.
  void require_configurations() const;

 private:
  friend class SearchSpace;
  struct Data;
  explicit BoundSpace(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  std::shared_ptr<const Data> data_;
};

}  // namespace knobwise
