// How the families of a session share its trials.
#pragma once

#include <cstddef>
#include <vector>

namespace knobwise {

struct FamilyTurns {
  std::size_t trials = 0;  ///< Proposed so far.
  double best_us = 0;      ///< The fastest that was accepted; 0: none yet.
};

/// The index of the family that the next trial belongs to. Families get trials in inverse proportion to the
/// square of how many times as long as the fastest family's best their own best takes, that counted as 4 at
/// most: a family that is 4 times as slow keeps one trial for each 16 of the fastest, enough to tell a bad
/// default from a bad family. One without an accepted trial counts as the fastest for its first ten trials,
/// then as 4 times as slow. `families` is not empty.
std::size_t next_family(const std::vector<FamilyTurns>& families);

}  // namespace knobwise
