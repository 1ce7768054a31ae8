// The oracle: the problem computed in float64, whole or at chosen outputs.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/accuracy.h"
#include "kernels/device.h"
#include "kernels/family.h"
#include "kernels/problem.h"

namespace knobwise {

/// Computes the whole output in float64 from host tensors: `buffers.input` and `.parameters` as Problem
/// describes them. Elements in the output's memory order (Problem::layout). Works sample by sample, so
/// scratch is one sample's float64. `threads` <= 0 means all cores.
void reference_output(const Problem& problem, const Buffers& buffers, double* output, int threads);

/// Outputs to check when checking all would take too long: linear indices into the output (memory order),
/// sorted, unique.
///
/// Always holds the corners, the first and last two places of every dimension and both sides of every seam of
/// `tile` (in one position of the other dimensions each), and a seeded random sample; near `budget` in
/// number. If the output has no more elements than `budget`, all of them. What outputs share (a softmax's
/// column, a norm's group) is drawn on several times; where groups are so large that a few cost all the time
/// there is, only some seams between channels are taken, evenly spread.
std::vector<std::int64_t> sample_outputs(const Problem& problem, const OutputTile& tile, std::int64_t budget,
                                         std::uint64_t seed);

/// The chosen outputs in float64; shares what they have in common (a group's statistics, a softmax's
/// denominator).
std::vector<double> reference_at(const Problem& problem, const Buffers& buffers,
                                 const std::vector<std::int64_t>& indices);

/// Verifies host buffers: the whole output when the problem is small (flops below ~2e8), else a sample with a
/// bounded cost.
ErrorMetrics verify_host(const Problem& problem, const Buffers& buffers, const OutputTile& tile,
                         std::uint64_t seed);

}  // namespace knobwise
