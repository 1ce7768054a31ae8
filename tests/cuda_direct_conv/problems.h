// Problems and configurations that the tests of the CUDA direct convolution share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/direct_conv_family.h"
#include "kernels/problem.h"
#include "search_spaces/bound_space.h"
#include "tests/configurations_option.h"

namespace knobwise {

/// The project's five reference problems.
inline const char* const kReferenceProblems[] = {
    "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
    "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine",
};

/// Small problems whose results are exact in fp32 for integer operands: odd channels, remainders in every
/// direction of a tile, and every parameter of a convolution.
inline const char* const kExactProblems[] = {
    "conv2d n=2 c=5 h=19 w=37 k=13 r=3 s=3 bias",
    "conv2d n=2 c=3 h=47 w=67 k=24 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=2 c=8 h=18 w=128 k=70 r=3 s=3 bias | div 2 | leaky_relu 0.25",
    "conv2d n=1 c=9 h=23 w=52 k=40 r=5 s=7 pad=2x3 | relu",
    "conv2d n=2 c=8 h=18 w=20 k=30 r=1 s=2 stride=1x2 dilation=2x1 pad=0x1",
    "conv2d n=1 c=4 h=33 w=65 k=9 r=3 s=5 stride=3x2 dilation=2x4 pad=3x7 bias | sub 3 | clamp -20 50",
    "conv2d n=2 c=12 h=9 w=11 k=12 r=3 s=3 pad=1 groups=12 bias",
    "conv2d n=2 c=12 h=9 w=24 k=36 r=3 s=3 pad=1 groups=4",
    "conv2d n=2 c=3 h=32 w=48 k=20 r=8 s=8 stride=8",
    "conv2d n=3 c=7 h=1 w=1 k=17 r=1 s=1 bias",
    "conv1d n=3 c=16 w=131 k=32 s=3 pad=1 bias | add 1",
    "conv1d n=2 c=3 w=1000 k=5 s=9 stride=2 dilation=3",
    "conv3d n=2 c=3 d=7 h=9 w=17 k=11 t=3 r=2 s=3 pad=1x0x1 bias | relu",
    "conv3d n=2 c=4 d=9 h=8 w=13 k=6 t=3 r=3 s=3 stride=2x1x2 dilation=1x2x1 groups=2",
    "conv3d n=2 c=3 d=9 h=8 w=19 k=10 t=3 r=3 s=3 bias | min depth",
    "conv3d n=2 c=5 d=8 h=7 w=12 k=8 t=2 r=3 s=3 pad=1 | relu | max depth | mul 2",
    "conv3d n=1 c=4 d=10 h=7 w=9 k=6 t=3 r=1 s=3 groups=2 | mean depth | sub 1",
    "conv3d n=1 c=2 d=8 h=7 w=9 k=5 t=2 r=2 s=2 bias | sum depth",
};

/// Small problems whose epilogue rounds.
inline const char* const kRoundedProblems[] = {
    "conv3d n=2 c=3 d=9 h=10 w=18 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv3d n=2 c=3 d=6 h=7 w=9 k=10 t=2 r=3 s=3 | add 1 | mean depth | mul 0.01 | softmax channel | mul 2",
    "conv2d n=2 c=3 h=11 w=21 k=37 r=3 s=3 bias | mul 0.01 | softmax channel",
    "conv1d n=3 c=16 w=100 k=32 s=3 pad=1 | group_norm groups=8 eps=1e-5 affine",
    "conv1d n=2 c=8 w=515 k=48 s=3 pad=1 bias | add 1000 | group_norm groups=4 eps=1e-5 affine | silu",
    "conv2d n=2 c=4 h=9 w=9 k=12 r=3 s=3 groups=2 | instance_norm eps=1e-5 affine | relu",
    "conv2d n=2 c=8 h=31 w=33 k=18 r=3 s=3 | group_norm groups=3 eps=1e-5",
    "conv3d n=2 c=2 d=5 h=6 w=11 k=8 t=3 r=3 s=3 | instance_norm eps=1e-5",
    "conv2d n=2 c=4 h=9 w=17 k=8 r=3 s=3 bias | mul 0.1 | gelu | hardswish | sigmoid | tanh | mish",
};

/// A problem with every parameter drawn from values that occur, some of which do not fit together.
inline std::string random_problem(std::mt19937& random) {
  const auto one_of = [&random](const std::vector<int>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  const int rank = one_of({1, 2, 3}), groups = one_of({1, 1, 1, 2, 8});
  std::string line = fmt::format("conv{}d n={} c={} k={} groups={}", rank, one_of({1, 2, 128}),
                                 groups * one_of({1, 2, 3, 5, 16, 100}),
                                 groups * one_of({1, 2, 3, 7, 13, 18, 24, 64, 129, 500}), groups);
  std::string stride, pad, dilation;
  for (int axis = 3 - rank; axis < 3; ++axis) {
    line += fmt::format(" {}={} {}={}", "dhw"[axis], one_of({1, 5, 7, 13, 28, 56, 100, 224, 513}),
                        "trs"[axis], one_of({1, 2, 3, 3, 5, 7}));
    const char* separator = axis == 3 - rank ? "" : "x";
    stride += fmt::format("{}{}", separator, one_of({1, 1, 2, 3, 4}));
    pad += fmt::format("{}{}", separator, one_of({0, 1, 3}));
    dilation += fmt::format("{}{}", separator, one_of({1, 1, 2, 5}));
  }
  const std::vector<const char*> epilogues = {"",
                                              " | relu",
                                              " | min depth",
                                              " | softmax channel",
                                              " | instance_norm eps=1e-5",
                                              " | max depth | softmax channel"};
  return line + fmt::format(" stride={} pad={} dilation={}{}", stride, pad, dilation,
                            epilogues[static_cast<std::size_t>(one_of({0, 1, 2, 3, 4, 5}))]);
}

}  // namespace knobwise
