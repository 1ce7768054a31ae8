// The float64 reference: the convolution and each kind of epilogue step on float64 scratch.
//
// Compiled after the prelude (KW_*), reference_tile.h, element.cuh and these constants of the host
// descriptor:
//   KW_REF_CHUNK        samples in a chunk
//   KW_REF_DTYPE        type of the input and parameters
//   KW_REF_OUT_DTYPE    type of the output
// Scratch tensors lie in the workspace as [sample of the chunk][c][d][h][w]; before them the number of the
// chunk's first sample, which kw_next moves on, so that the same launches serve every chunk. NaN passes
// through every step.

using namespace knobwise;

namespace knobwise::reference {

struct Shape {
  long long c, d, h, w;
  constexpr __device__ long long plane() const { return d * h * w; }
  constexpr __device__ long long elements() const { return c * d * h * w; }
};

__device__ inline long long first_sample(const void* workspace) {
  return *static_cast<const long long*>(workspace);
}

__device__ inline long long samples_here(const void* workspace) {
  const long long left = KW_N - first_sample(workspace);
  return left < KW_REF_CHUNK ? left : KW_REF_CHUNK;
}

__device__ inline double* scratch(void* workspace, long long offset) {
  return reinterpret_cast<double*>(static_cast<char*>(workspace) + offset);
}

// ---- Convolution: a tile of channels x positions a block, kChannels x kPositions of them a thread.

constexpr int kGroupInputs = KW_C / KW_GROUPS, kGroupOutputs = KW_K / KW_GROUPS;
constexpr long long kReduction = 1LL * kGroupInputs * KW_T * KW_R * KW_S;
template <bool kWide>
struct TermType {
  using type = int;
};
template <>
struct TermType<true> {
  using type = long long;
};
// Number of a term of the sum: 64-bit divisions only where they are needed.
using Term = TermType<(kReduction > 2000000000)>::type;
constexpr ReferenceTile kTile = reference_tile(kGroupOutputs);
constexpr int kThreads = ReferenceTile::kThreads, kPositions = ReferenceTile::kPositionsPerThread;
constexpr int kChannels = kTile.channels_per_thread, kPositionThreads = kTile.position_threads();
constexpr int kTileChannels = kTile.channels(), kTilePositions = kTile.positions();
// Terms of the sum that are staged together: what 40 KB hold of both operands.
constexpr int kStep = power_of_two_within(16, 40 * 1024 / 8 / (kTileChannels + kTilePositions));
// Padded, because neighbouring threads write neighbouring rows.
constexpr int kWeightRow = kTileChannels + 2;
constexpr long long kChannelTiles = (kGroupOutputs + kTileChannels - 1) / kTileChannels;
constexpr long long kOutPlane = 1LL * KW_OD * KW_OH * KW_OW;

// One output position of the chunk as the loads need it.
struct Window {
  long long sample_base;  // of the input, in elements; negative beyond the last position
  int d, h, w;            // of the window's first tap, padding included
};

__device__ inline Window window_of(long long position, long long positions, long long first, int group) {
  if (position >= positions) return {-1, 0, 0, 0};
  const long long sample = first + position / kOutPlane;
  const long long in_plane = position % kOutPlane;
  const int d = static_cast<int>(in_plane / (1LL * KW_OH * KW_OW));
  const int h = static_cast<int>(in_plane / KW_OW % KW_OH), w = static_cast<int>(in_plane % KW_OW);
  const long long channel_step = KW_NHWC ? 1 : 1LL * KW_D * KW_H * KW_W;
  return {sample * KW_C * KW_D * KW_H * KW_W + group * kGroupInputs * channel_step,
          d * KW_STRIDE_D - KW_PAD_D, h * KW_STRIDE_H - KW_PAD_H, w * KW_STRIDE_W - KW_PAD_W};
}

// The input that term (channel, t, r, s) of the sum multiplies at a window: 0 in the padding.
__device__ inline double tap(const void* input, const Window& window, Term term) {
  const int s = static_cast<int>(term % KW_S), r = static_cast<int>(term / KW_S % KW_R);
  const int t = static_cast<int>(term / (KW_S * KW_R) % KW_T);
  const long long channel = term / (KW_S * KW_R * KW_T);
  const int d = window.d + t * KW_DILATION_D, h = window.h + r * KW_DILATION_H,
            w = window.w + s * KW_DILATION_W;
  if (window.sample_base < 0 || term >= kReduction || d < 0 || d >= KW_D || h < 0 || h >= KW_H || w < 0 ||
      w >= KW_W) {
    return 0;
  }
  const long long pixel = (1LL * d * KW_H + h) * KW_W + w;
  const long long offset = KW_NHWC ? pixel * KW_C + channel : channel * (1LL * KW_D * KW_H * KW_W) + pixel;
  return load_element(input, KW_REF_DTYPE, window.sample_base + offset);
}

__device__ inline double weight(const void* weights, int group, long long channel, Term term) {
  if (channel >= kGroupOutputs || term >= kReduction) return 0;
  return load_element(weights, KW_REF_DTYPE, (1LL * group * kGroupOutputs + channel) * kReduction + term);
}

struct Accumulators {
  double value[kChannels][kPositions] = {};
};

__device__ inline void accumulate(Accumulators& sums, const double (*weights)[kWeightRow],
                                  const double (*inputs)[kTilePositions], int channel_thread,
                                  int position_thread) {
#pragma unroll 2
  for (int step = 0; step < kStep; ++step) {
    double x[kPositions], y[kChannels];
#pragma unroll
    for (int j = 0; j < kPositions; ++j) x[j] = inputs[step][position_thread + j * kPositionThreads];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) y[i] = weights[step][channel_thread * kChannels + i];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
#pragma unroll
      for (int j = 0; j < kPositions; ++j) sums.value[i][j] = fma(y[i], x[j], sums.value[i][j]);
    }
  }
}

__device__ inline void store_sums(const Accumulators& sums, double* out, const void* bias, int group,
                                  long long first_channel, long long first_position, long long positions) {
#pragma unroll
  for (int j = 0; j < kPositions; ++j) {
    const long long position = first_position + j * kPositionThreads;
    if (position >= positions) continue;
    const long long sample = position / kOutPlane, in_plane = position % kOutPlane;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      if (first_channel + i >= kGroupOutputs) continue;
      const long long channel = group * kGroupOutputs + first_channel + i;
      double value = sums.value[i][j];
      if (KW_BIAS) value += load_element(bias, KW_REF_DTYPE, channel);
      out[(sample * KW_K + channel) * kOutPlane + in_plane] = value;
    }
  }
}

// `bias` is only read where the problem has one. Blocks: position tiles x groups x channel tiles, the last
// fastest.
__device__ inline void convolve(void* workspace, const void* input, const void* weights, const void* bias,
                                long long out_offset) {
  __shared__ double weight_tile[kStep][kWeightRow];
  __shared__ double input_tile[kStep][kTilePositions];
  const long long positions = samples_here(workspace) * kOutPlane, first = first_sample(workspace);
  const long long channel_tile = blockIdx.x % kChannelTiles;
  const int group = static_cast<int>(blockIdx.x / kChannelTiles % KW_GROUPS);
  const long long position_base = blockIdx.x / (kChannelTiles * KW_GROUPS) * kTilePositions;
  const int position_thread = threadIdx.x % kPositionThreads, channel_thread = threadIdx.x / kPositionThreads;

  // Each thread stages fixed positions (of every kLoadRows-th term), so that their coordinates are found
  // once.
  constexpr int kLoadColumns = kTilePositions < kThreads ? kTilePositions : kThreads;
  constexpr int kLoadRows = kThreads / kLoadColumns, kLoads = kTilePositions / kLoadColumns;
  Window windows[kLoads];
#pragma unroll
  for (int j = 0; j < kLoads; ++j) {
    windows[j] =
        window_of(position_base + threadIdx.x % kLoadColumns + j * kLoadColumns, positions, first, group);
  }
  Accumulators sums;
  for (Term term = 0; term < kReduction; term += kStep) {
    for (int row = threadIdx.x / kLoadColumns; row < kStep; row += kLoadRows) {
#pragma unroll
      for (int j = 0; j < kLoads; ++j) {
        input_tile[row][threadIdx.x % kLoadColumns + j * kLoadColumns] = tap(input, windows[j], term + row);
      }
    }
    for (int i = threadIdx.x; i < kStep * kTileChannels; i += kThreads) {
      const int channel = i / kStep, row = i % kStep;  // neighbouring threads read neighbouring weights
      weight_tile[row][channel] = weight(weights, group, channel_tile * kTileChannels + channel, term + row);
    }
    __syncthreads();
    accumulate(sums, weight_tile, input_tile, channel_thread, position_thread);
    __syncthreads();
  }
  store_sums(sums, scratch(workspace, out_offset), bias, group,
             channel_tile * kTileChannels + channel_thread * kChannels, position_base + position_thread,
             positions);
}

// ---- Epilogue.

template <class Function>
__device__ void pointwise(void* workspace, long long offset, Shape shape, Function function) {
  double* data = scratch(workspace, offset);
  const long long count = samples_here(workspace) * shape.elements();
  for (long long i = global_thread(); i < count; i += global_threads()) data[i] = function(data[i]);
}

// Where element `i` of a [sample][c][d][h][w] tensor lies in the memory order of the problem's activations.
__device__ inline long long memory_index(long long i, Shape shape) {
  if (!KW_NHWC) return i;
  const long long pixel = i % shape.plane(), channel = i / shape.plane() % shape.c,
                  sample = i / shape.elements();
  return (sample * shape.plane() + pixel) * shape.c + channel;
}

__device__ inline void add_residual(void* workspace, long long offset, Shape shape, const void* residual) {
  double* data = scratch(workspace, offset);
  const long long count = samples_here(workspace) * shape.elements();
  const long long before = first_sample(workspace) * shape.elements();
  for (long long i = global_thread(); i < count; i += global_threads()) {
    data[i] += load_element(residual, KW_REF_DTYPE, before + memory_index(i, shape));
  }
}

enum class Reduction { min, max, mean, sum };

// Reduces an axis of `extent` elements that lie `step` apart.
__device__ inline void reduce(void* workspace, long long from, long long to, Shape shape, long long extent,
                              long long step, Reduction reduction) {
  const double* in = scratch(workspace, from);
  double* out = scratch(workspace, to);
  const long long count = samples_here(workspace) * shape.elements() / extent;
  for (long long i = global_thread(); i < count; i += global_threads()) {
    const double* line = in + i / step * step * extent + i % step;
    double result = line[0];
    for (long long j = 1; j < extent; ++j) {
      const double x = line[j * step];
      if (reduction == Reduction::min) {
        if (x < result || x != x) result = x;
      } else if (reduction == Reduction::max) {
        if (x > result || x != x) result = x;
      } else {
        result += x;
      }
    }
    out[i] = reduction == Reduction::mean ? result / static_cast<double>(extent) : result;
  }
}

__device__ inline void softmax(void* workspace, long long offset, Shape shape) {
  double* data = scratch(workspace, offset);
  const long long count = samples_here(workspace) * shape.plane();
  for (long long i = global_thread(); i < count; i += global_threads()) {
    double* line = data + i / shape.plane() * shape.elements() + i % shape.plane();
    double largest = line[0], sum = 0;
    for (long long c = 1; c < shape.c; ++c) {
      const double x = line[c * shape.plane()];
      if (x > largest || x != x) largest = x;
    }
    for (long long c = 0; c < shape.c; ++c) sum += exp(line[c * shape.plane()] - largest);
    for (long long c = 0; c < shape.c; ++c)
      line[c * shape.plane()] = exp(line[c * shape.plane()] - largest) / sum;
  }
}

__device__ inline double block_sum(double mine) {
  __shared__ double shared[kThreads];
  __syncthreads();
  shared[threadIdx.x] = mine;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  __syncthreads();
  return shared[0];
}

// Group normalisation, one (sample, group) a block at a time; two passes, so that a large mean cancels
// nothing. `scale` and `shift` are null without an affine part.
__device__ inline void normalise(void* workspace, long long offset, Shape shape, long long groups,
                                 double epsilon, const void* scale, const void* shift) {
  double* data = scratch(workspace, offset);
  const long long size = shape.elements() / groups;
  for (long long unit = blockIdx.x; unit < samples_here(workspace) * groups; unit += gridDim.x) {
    double* members = data + unit * size;
    double sum = 0, squares = 0;
    for (long long i = threadIdx.x; i < size; i += kThreads) sum += members[i];
    const double mean = block_sum(sum) / static_cast<double>(size);
    for (long long i = threadIdx.x; i < size; i += kThreads)
      squares += (members[i] - mean) * (members[i] - mean);
    const double deviation = sqrt(block_sum(squares) / static_cast<double>(size) + epsilon);
    for (long long i = threadIdx.x; i < size; i += kThreads) {
      const long long channel = unit % groups * (shape.c / groups) + i / shape.plane();
      double value = (members[i] - mean) / deviation;
      if (scale) value *= load_element(scale, KW_REF_DTYPE, channel);
      if (shift) value += load_element(shift, KW_REF_DTYPE, channel);
      members[i] = value;
    }
  }
}

// Rounds the chunk into its place in the output.
__device__ inline void store(void* workspace, long long offset, Shape shape, void* output) {
  const double* data = scratch(workspace, offset);
  const long long count = samples_here(workspace) * shape.elements();
  const long long before = first_sample(workspace) * shape.elements();
  for (long long i = global_thread(); i < count; i += global_threads()) {
    store_element(output, KW_REF_OUT_DTYPE, before + memory_index(i, shape), data[i]);
  }
}

}  // namespace knobwise::reference

using namespace knobwise::reference;

extern "C" __global__ void kw_begin(void* workspace) {
  *static_cast<long long*>(workspace) = 0;
}
extern "C" __global__ void kw_next(void* workspace) {
  *static_cast<long long*>(workspace) += KW_REF_CHUNK;
}
