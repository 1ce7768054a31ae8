// The problem vocabulary: one convolution with its shapes, data type, layout and fused epilogue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search_spaces/value.h"

namespace knobwise {

enum class DType { f32, f16, bf16 };
/// Memory order of activations: nchw stands for channels first in every rank (NCL, NCHW, NCDHW), nhwc for
/// channels last.
enum class Layout { nchw, nhwc };

std::string_view to_string(DType dtype);
std::string_view to_string(Layout layout);
std::size_t size_of(DType dtype);

/// Steps of an epilogue. Element-wise ones come first in the list, then those that combine several outputs.
enum class EpilogueOp {
  add,
  sub,
  mul,
  div,  // one number
  relu,
  leaky_relu,
  clamp,
  sigmoid,
  tanh,
  gelu,
  silu,
  mish,
  hardswish,  // leaky_relu: slope; clamp: low, high
  residual,   // adds a tensor of the current shape, a parameter of the problem
  min,
  max,
  mean,
  sum,      // along `axis`, which leaves an extent of 1
  softmax,  // along the channels
  group_norm,
  instance_norm,  // groups, eps, optional affine scale and shift per channel
};

/// The axis that a reduction removes.
enum class Axis { channel, depth, height, width };

/// One step of the chain that follows the convolution and its bias.
struct EpilogueStep {
  EpilogueOp op = EpilogueOp::relu;
  /// The numbers of the step in the order in which they are written (add 1 | clamp 0 6); eps for the norms.
  std::vector<double> numbers;
  Axis axis = Axis::channel;  ///< Reductions only.
  std::int64_t groups = 1;    ///< group_norm only.
  bool affine = false;  ///< group_norm and instance_norm: a scale and a shift per channel are parameters.

  bool operator==(const EpilogueStep&) const = default;
};

bool is_elementwise(EpilogueOp op);
std::string_view to_string(EpilogueOp op);

/// Extents of an activation tensor, always with three spatial dimensions (1 where the rank is lower).
struct Extents {
  std::int64_t n = 1, c = 1, d = 1, h = 1, w = 1;

  std::int64_t elements() const { return n * c * d * h * w; }
  bool operator==(const Extents&) const = default;
};

/// A tensor besides input and output that a problem needs. A residual lies in the order of Problem::layout.
struct ParameterSpec {
  std::string
      name;  ///< "weights", "bias", then "scale2", "shift2", "residual1": the number is the step's index.
  std::vector<std::int64_t>
      extents;  ///< weights: k, c/groups, t, r, s; per-channel vectors: c; residual: n, c, d, h, w.

  std::int64_t elements() const;
};

/// One convolution (cross-correlation, as in deep-learning frameworks), forward only.
///
/// Or, where `user` names one, the problem of a user's own kernel, written `user:NAME size=XxYxZ`: then
/// `rank` counts the extents of its size (0 to 3), `in` holds them as z, y, x, flops() and compulsory_bytes()
/// are the number of points, and nothing else has a meaning.
///
/// A value type. Lower ranks use the trailing dimensions: conv2d has d = t = 1, conv1d also h = r = 1. Obtain
/// one from parse(), which guarantees every invariant: positive extents, groups that divide c and k, a
/// non-empty output, an epilogue that fits, and no count of elements, bytes or operations above 2^63 - 1.
struct Problem {
  int rank = 2;                                 ///< 1, 2 or 3 spatial dimensions.
  std::int64_t n = 1, c = 1, k = 1;             ///< Batch, input channels, output channels.
  std::array<std::int64_t, 3> in{1, 1, 1};      ///< d, h, w.
  std::array<std::int64_t, 3> filter{1, 1, 1};  ///< t, r, s.
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> pad{0, 0, 0};  ///< Zeros on both sides of each dimension.
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  std::int64_t groups = 1;
  bool bias = false;
  DType dtype = DType::f32;      ///< Of input, weights, parameters and output.
  Layout layout = Layout::nchw;  ///< Of input and output; weights are always k, c/groups, t, r, s.
  std::vector<EpilogueStep> epilogue;
  std::string user;  ///< The name of a user's own kernel; empty for a convolution.

  /// Reads a problem line such as
  ///   conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01
  /// Words after conv1d/2d/3d may stand in any order. Throws UserError that points at the offending word.
  static Problem parse(std::string_view line);

  /// The canonical line: parse(to_string()) == *this, and equal problems print equally. It is the problem's
  /// key.
  std::string to_string() const;

  Extents input_extents() const;
  /// What the convolution itself yields, before the epilogue.
  Extents conv_extents() const;
  /// What the whole problem yields, after every reduction of the epilogue.
  Extents output_extents() const;
  /// Extents before epilogue step `index` (index == epilogue.size() gives output_extents()).
  Extents extents_before(std::size_t index) const;

  /// Weights, bias (if any), then what the epilogue's steps need, in order.
  std::vector<ParameterSpec> parameters() const;

  /// Multiplications and additions of the convolution: 2 * n * k * od * oh * ow * (c/groups) * t * r * s.
  std::int64_t flops() const;
  /// Input, parameters and output, each once, in bytes: the least traffic any implementation has.
  std::int64_t compulsory_bytes() const;
  /// (c/groups) * t * r * s.
  std::int64_t fan_in() const;

  bool operator==(const Problem&) const = default;
};

/// The problem's dimensions under the names that constraints and expressions use: n c d h w k t r s,
/// stride_d/h/w, pad_d/h/w, dilation_d/h/w, groups, bias, od oh ow (the convolution's output), rank,
/// dtype_bytes, fan_in, c_per_group, k_per_group. For a user's kernel: problem_size_x, problem_size_y,
/// problem_size_z.
std::vector<std::pair<std::string, Value>> problem_constants(const Problem& problem);

}  // namespace knobwise
