// Problems that the tests of the tensor-core convolutions share, besides those of the direct convolution.
#pragma once

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/cuda/implicit_gemm_family.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {

/// Small problems whose results are exact for integer operands: the types and layouts that direct_conv leaves
/// out, and vectors of the reduction that end inside a filter row or a chunk of channels.
inline const char* const kExactMatrixProblems[] = {
    "conv2d n=2 c=8 h=17 w=24 k=24 r=3 s=3 pad=1 dtype=f16 bias | relu",
    "conv2d n=2 c=5 h=17 w=23 k=13 r=3 s=3 pad=1 dtype=bf16",
    "conv2d n=2 c=12 h=15 w=20 k=20 r=3 s=3 pad=1 layout=nhwc bias",
    "conv2d n=2 c=16 h=15 w=21 k=24 r=3 s=3 stride=2 layout=nhwc dtype=f16",
    "conv2d n=2 c=12 h=9 w=12 k=24 r=3 s=3 pad=1 groups=2 layout=nhwc dtype=bf16 | relu",
    "conv2d n=1 c=1 h=40 w=52 k=16 r=7 s=7 stride=2 pad=3",
    "conv2d n=1 c=2 h=30 w=45 k=8 r=5 s=6 bias",
    "conv2d n=1 c=3 h=30 w=45 k=11 r=2 s=9 stride=1x3 pad=0x4",
    "conv2d n=1 c=40 h=14 w=14 k=72 r=1 s=1 bias",
    "conv2d n=1 c=36 h=10 w=19 k=130 r=3 s=3 pad=1",
    "conv1d n=2 c=1 w=515 k=9 s=25 pad=12",
    "conv3d n=1 c=8 d=6 h=9 w=12 k=16 t=3 r=3 s=3 pad=1 layout=nhwc",
    "conv2d n=2 c=16 h=14 w=18 k=40 r=3 s=3 pad=1 bias | mul 2 | residual | relu",
    "conv2d n=1 c=8 h=11 w=15 k=24 r=3 s=3 | residual",
    "conv2d n=2 c=16 h=10 w=12 k=24 r=1 s=1 dtype=f16 layout=nhwc | residual | relu",
    "conv2d n=2 c=64 h=20 w=250 k=136 r=5 s=7 bias",
    "conv2d n=1 c=48 h=13 w=70 k=200 r=3 s=3 stride=2x1 pad=1 dilation=1x2",
    "conv1d n=2 c=128 w=300 k=256 s=3 pad=1 dtype=f16",
    "conv3d n=1 c=24 d=5 h=8 w=33 k=70 t=2 r=3 s=3 pad=1x1x1 stride=2x1x1 | relu",
    "conv2d n=1 c=32 h=9 w=40 k=64 r=1 s=1 groups=2 dtype=bf16 layout=nhwc",
    "conv2d n=1 c=300 h=7 w=7 k=64 r=3 s=3 pad=1 bias | mul 2 | relu",
    "conv2d n=1 c=256 h=9 w=5 k=40 r=3 s=3 pad=1 dtype=f16 layout=nhwc bias | residual | relu",
    "conv1d n=2 c=5 w=75 k=136 s=4 bias",
    "conv1d n=1 c=300 w=67 k=264 s=3 dtype=f16 layout=nhwc",
    // Input that the copy engine can bring: whole chunks of channels, a tail of them, groups, strides, long
    // rows.
    "conv2d n=2 c=72 h=11 w=100 k=136 r=3 s=5 pad=1x2 dtype=f16 layout=nhwc bias | relu",
    "conv3d n=2 c=24 d=5 h=9 w=33 k=70 t=2 r=3 s=3 pad=1 stride=2x2x1 dilation=2x1x2 dtype=bf16 layout=nhwc",
    "conv2d n=1 c=64 h=30 w=9 k=48 r=3 s=3 pad=1 stride=3x1 groups=4 dtype=f16 layout=nhwc",
    "conv1d n=2 c=16 w=1000 k=64 s=3 pad=1 dtype=f16 layout=nhwc",
    "conv1d n=2 c=32 w=2327 k=40 s=2 dilation=1427 dtype=f16 layout=nhwc",
    "conv2d n=1 c=16 h=70 w=20 k=24 r=3 s=3 pad=4x25 stride=6x1 dtype=bf16 layout=nhwc",
};

/// Up to `count` configurations of a precision mode, of those that a sample of the space has.
inline std::vector<Configuration> configurations_in(const BoundSpace& space, std::string_view precision,
                                                    std::size_t count) {
  std::mt19937_64 random(23);
  std::vector<Configuration> found;
  for (const std::uint64_t index : space.sample(std::min<std::uint64_t>(space.size(), 2000), random)) {
    if (found.size() == count) break;
    Configuration configuration = space.configuration(index);
    if (configuration.text("precision") == precision) found.push_back(std::move(configuration));
  }
  return found;
}

}  // namespace knobwise
