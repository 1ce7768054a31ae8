// What an output is computed from, and which outputs share it.
#pragma once

#include <cstdint>

#include "kernels/activation_index.h"
#include "kernels/problem.h"

namespace knobwise {

/// A box of positions, both ends included.
struct Box {
  Position low, high;

  auto operator<=>(const Box&) const = default;
};

/// The outputs of the convolution that one output of the problem needs: along reduced axes all, for a softmax
/// the whole column of channels, for a norm its group. Outputs with equal boxes share all of their work.
Box convolution_box(const Problem& problem, const Position& output);

/// The outputs of the problem that share a convolution_box().
Box outputs_of(const Problem& problem, const Box& box);

/// Multiply-accumulates behind the output at the origin and all that share its work.
double shared_macs(const Problem& problem);

/// Whether some step normalises: its groups are far larger than anything else that outputs share.
bool has_norm(const Problem& problem);

}  // namespace knobwise
