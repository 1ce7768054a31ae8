// A convolution as it is written by hand, in fp32, for the designs that are weighed against one another: where
// operands and results live, what neighbouring threads share and how often a block goes over its input are knobs.
//
// Compiled by NVRTC after the prelude (KW_* dimensions, KNOB_* knobs), the epilogue's description (KW_EPILOGUE_*,
// KW_NORM_*) and functions (kw_before, kw_between, kw_after), plain_conv_geometry.h and `geometry()`. Weights are
// packed as [k][c][taps] or [c][taps][k], k padded with zeros to whole blocks.

namespace knobwise::plain_conv {

#ifdef KNOB_weights_layout_crsk
constexpr bool kChannelInnermost = true;
#else
constexpr bool kChannelInnermost = false;
#endif
#ifdef KNOB_lanes_channels
constexpr bool kChannelLanes = true;
#else
constexpr bool kChannelLanes = false;
#endif

__device__ constexpr Geometry g = geometry();
constexpr int kC = g.channels_per_thread, kP = g.positions_per_thread;
constexpr int kSteps = KW_C / g.input_channels_per_step, kStepTaps = g.input_channels_per_step * g.taps();
constexpr int kThreads = g.threads();

struct Tile {
  int n, d, h, w;  // sample, depth, first row and column
  int flat;        // first position of the plane, of a flat tile
  int channel;     // first
};

struct Position {
  int h, w;
  bool inside;
};

__device__ __forceinline__ Tile tile_of(unsigned block) {
  const int channel = block % g.channel_blocks() * g.block_channels();
  block /= g.channel_blocks();
  const int tile = block % g.tiles();
  block /= g.tiles();
  const int d = block % g.depths(), n = block / g.depths();
  if (g.flat) return {n, d, tile * g.tile_w / KW_OW, 0, tile * g.tile_w, channel};
  return {n, d, tile / g.tiles_w() * g.tile_h, tile % g.tiles_w() * g.tile_w, 0, channel};
}

__device__ __forceinline__ Position position_of(const Tile& tile, int p) {
  if (g.flat) {
    const int at = tile.flat + p;
    return {at / KW_OW, at % KW_OW, at < g.plane()};
  }
  const int h = tile.h + p / g.tile_w, w = tile.w + p % g.tile_w;
  return {h, w, h < KW_OH && w < KW_OW};
}

__device__ __forceinline__ float input_at(const float* input, int n, int c, int d, int h, int w) {
  if (d < 0 || d >= KW_D || h < 0 || h >= KW_H || w < 0 || w >= KW_W) return 0;
  return input[((static_cast<long long>(n) * KW_C + c) * KW_D + d) * KW_H * KW_W + h * KW_W + w];
}

// Brings input channels from `first` on to where the step reads them.
__device__ __forceinline__ void stage_input(float* staged, const float* input, const Tile& tile, int first) {
  const int d0 = tile.d * KW_STRIDE_D - KW_PAD_D;
  if (g.input == Input::halo) {
    const int h0 = tile.h * KW_STRIDE_H - KW_PAD_H, w0 = tile.w * KW_STRIDE_W - KW_PAD_W;
    for (int i = threadIdx.x; i < g.input_elements(); i += kThreads) {
      const int w = i % g.staged_w(), row = i / g.staged_w();
      const int h = row % g.staged_h(), d = row / g.staged_h() % g.staged_d();
      staged[i] = input_at(input, tile.n, first + row / g.staged_h() / g.staged_d(), d0 + d, h0 + h, w0 + w);
    }
  } else if (g.input == Input::patch) {
    for (int i = threadIdx.x; i < g.input_elements(); i += kThreads) {
      const int s = i % KW_S, r = i / KW_S % KW_R, d = i / (KW_S * KW_R) % g.staged_d();
      const int c = i / (KW_S * KW_R * g.staged_d()) % g.input_channels_per_step;
      const Position at = position_of(tile, i / g.patch_elements());
      staged[i] = input_at(input, tile.n, first + c, d0 + d, at.h * KW_STRIDE_H - KW_PAD_H + r * KW_DILATION_H,
                           at.w * KW_STRIDE_W - KW_PAD_W + s * KW_DILATION_W);
    }
  }
}

__device__ __forceinline__ void stage_weights(float* staged, const float* packed, const Tile& tile, int first) {
  if (!g.weights_shared) return;
  for (int i = threadIdx.x; i < g.weight_elements(); i += kThreads) {
    const int from = kChannelInnermost ? (first * g.taps() + i / g.block_channels()) * g.packed_channels() +
                                             tile.channel + i % g.block_channels()
                                       : (tile.channel + i / kStepTaps) * KW_C * g.taps() + first * g.taps() +
                                             i % kStepTaps;
    staged[i] = packed[from];
  }
}

// A thread's weights of one tap, `tap` counted from the first input channel of the step. `weights` begins with
// the thread's first channel there.
__device__ __forceinline__ void load_weights(float (&values)[kC], const float* weights, int tap) {
  constexpr int kChannels = g.weights_shared ? g.block_channels() : g.packed_channels();
  constexpr int kInner = g.weights_shared ? kStepTaps : KW_C * g.taps();
  if constexpr (kChannelInnermost && kC % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kC; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(weights + tap * kChannels + i);
      values[i] = four.x, values[i + 1] = four.y, values[i + 2] = four.z, values[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kC; ++i) values[i] = weights[kChannelInnermost ? tap * kChannels + i : i * kInner + tap];
  }
}

using Sums = float[kC][kP];

// What a thread computes: kC channels from `channel` on in each pass, kP positions from `position` on.
struct Part {
  int depth_group, lane, channel, position;  // lane: of the group's threads
};

__device__ __forceinline__ Part part_of(unsigned thread) {
  const int lane = thread % g.group_threads();
  const int channel_thread = kChannelLanes ? lane % g.channel_threads() : lane / g.position_threads();
  return {thread / g.group_threads(), lane, channel_thread * kC,
          kChannelLanes ? lane / g.channel_threads() : lane % g.position_threads()};
}

struct Reach {
  int offset[kP];       // of the positions' first taps in what is staged
  Position at[kP];
};

__device__ __forceinline__ Reach reach_of(const Tile& tile, int position) {
  Reach reach;
#pragma unroll
  for (int j = 0; j < kP; ++j) {
    const int p = position + j * g.position_threads();
    Position at = position_of(tile, p);
    reach.at[j] = at;
    // Past the end of a flat tile nothing is staged; the first position serves as well.
    const int h = at.inside || !g.flat ? at.h - tile.h : 0, w = at.inside || !g.flat ? at.w - tile.w : 0;
    reach.offset[j] = g.input == Input::patch ? p * g.patch_elements()
                                              : h * KW_STRIDE_H * g.staged_w() + w * KW_STRIDE_W;
  }
  return reach;
}

__device__ __forceinline__ void add_products(Sums& sums, const float* staged, const float* weights, const float* input,
                                    const Reach& reach, const Tile& tile, int depth, int first) {
  const int staged_depth = g.reduce_depth ? depth * KW_STRIDE_D : 0;
#pragma unroll 1
  for (int c = 0; c < g.input_channels_per_step; ++c) {
#pragma unroll 1
    for (int t = 0; t < KW_T; ++t) {
#pragma unroll
      for (int r = 0; r < KW_R; ++r) {
#pragma unroll
        for (int s = 0; s < KW_S; ++s) {
          float w[kC], x[kP];
          load_weights(w, weights, ((c * KW_T + t) * KW_R + r) * KW_S + s);
#pragma unroll
          for (int j = 0; j < kP; ++j) {
            const int plane = c * g.staged_d() + staged_depth + t * KW_DILATION_D;
            if (g.input == Input::halo) {
              x[j] = staged[reach.offset[j] + (plane * g.staged_h() + r * KW_DILATION_H) * g.staged_w() +
                            s * KW_DILATION_W];
            } else if (g.input == Input::patch) {
              x[j] = staged[reach.offset[j] + (plane * KW_R + r) * KW_S + s];
            } else {
              x[j] = input_at(input, tile.n, first + c, depth * KW_STRIDE_D - KW_PAD_D + t * KW_DILATION_D,
                              reach.at[j].h * KW_STRIDE_H - KW_PAD_H + r * KW_DILATION_H,
                              reach.at[j].w * KW_STRIDE_W - KW_PAD_W + s * KW_DILATION_W);
            }
          }
#pragma unroll
          for (int i = 0; i < kC; ++i)
#pragma unroll
            for (int j = 0; j < kP; ++j) sums[i][j] = fmaf(w[i], x[j], sums[i][j]);
        }
      }
    }
  }
}

// A NaN in `x` is kept, as in `most`.
__device__ __forceinline__ float fold(float most, float x) {
  if (KW_EPILOGUE_MIN) return x < most || x != x ? x : most;
  if (KW_EPILOGUE_MAX) return x > most || x != x ? x : most;
  return most + x;
}

__device__ __forceinline__ float block_sum(float x) {
  __shared__ float of_warps[32];
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += of_warps[warp];
  return sum;
}

__device__ __forceinline__ void store(float* output, const Tile& tile, int channel, const Position& at, float value) {
  if (at.inside && channel < KW_K)
    output[((static_cast<long long>(tile.n) * KW_K + channel) * g.depths() + tile.d) * g.plane() + at.h * KW_OW +
           at.w] = value;
}

// Channels of all positions of the block, [channel][position], after the last pass.
__device__ __forceinline__ void softmax(const float* results, float* output, const Tile& tile) {
  for (int p = threadIdx.x; p < g.positions(); p += kThreads) {
    const Position at = position_of(tile, p);
    float most = results[p], sum = 0;
    for (int k = 1; k < KW_K; ++k) most = fmaxf(most, results[k * g.positions() + p]);
    for (int k = 0; k < KW_K; ++k) sum += expf(results[k * g.positions() + p] - most);
    for (int k = 0; k < KW_K; ++k)
      store(output, tile, k, at, kw_after(expf(results[k * g.positions() + p] - most) / sum, 0));
  }
}

#if KW_EPILOGUE_NORM
// The results of the block that are this thread's to normalise: those it computed, or its share of those in
// shared memory. `use` gets each, its channel in the block, and its position.
struct Mine {
  const Sums& sums;
  const Reach& reach;
  const float* exchange;
  const Tile& tile;
  int channel;  // of sums[0]

  template <class Use>
  __device__ void each(const Use& use) const {
#ifdef KNOB_outputs_shared
    for (int i = threadIdx.x; i < g.channels_per_block * g.positions(); i += kThreads)
      if (const Position at = position_of(tile, i % g.positions()); at.inside)
        use(exchange[i], i / g.positions(), at);
#else
#pragma unroll
    for (int i = 0; i < kC; ++i)
#pragma unroll
      for (int j = 0; j < kP; ++j)
        if (reach.at[j].inside) use(sums[i][j], channel + i, reach.at[j]);
#endif
  }
};

// Normalises the block's results, which are one group of one sample.
__device__ __forceinline__ void normalise(const Mine& mine, float* output, const Tile& tile, const float* gamma,
                                 const float* beta) {
  constexpr float kCount = 1.0f * g.channels_per_block * g.plane();
  float sum = 0, squares = 0;
  mine.each([&](float x, int, const Position&) { sum += x, squares += x * x; });
  const float mean = block_sum(sum) / kCount;
#if KNOB_norm_passes == 2
  squares = 0;
  mine.each([&](float x, int, const Position&) { squares += (x - mean) * (x - mean); });
  const float variance = block_sum(squares) / kCount;
#else
  const float variance = fmaxf(block_sum(squares) / kCount - mean * mean, 0);
#endif
  const float scale = 1.0f / sqrtf(variance + KW_NORM_EPS);
  mine.each([&](float x, int channel, const Position& at) {
    const int k = tile.channel + channel;
#if KW_NORM_AFFINE
    const float value = (x - mean) * scale * gamma[k] + beta[k];
#else
    const float value = (x - mean) * scale;
#endif
    store(output, tile, k, at, kw_between(value, 0));
  });
}
#endif

// Where the block's operands and results are in shared memory.
struct Shared {
  float *input, *weights, *exchange;
};

__device__ __forceinline__ void stage(const Shared& shared, const float* input, const float* packed, const Tile& tile,
                             int first) {
  stage_input(shared.input, input, tile, first);
  stage_weights(shared.weights, packed, tile, first);
  __syncthreads();
}

// The thread's results of the depths that are its group's; `channel` is its first in the block.
__device__ __forceinline__ void compute(Sums& results, const Shared& shared, const float* input, const float* packed,
                               const float* bias, const Tile& tile, const Part& part, const Reach& reach,
                               int channel) {
  float offset[kC];
#pragma unroll
  for (int i = 0; i < kC; ++i) {
    offset[i] = KW_BIAS && tile.channel + channel + i < KW_K ? bias[tile.channel + channel + i] : 0;
#pragma unroll
    for (int j = 0; j < kP; ++j)
      results[i][j] = KW_EPILOGUE_MIN ? __int_as_float(0x7F800000) : KW_EPILOGUE_MAX ? -__int_as_float(0x7F800000) : 0;
  }
#pragma unroll 1
  for (int depth = g.reduce_depth ? part.depth_group : tile.d; depth < (g.reduce_depth ? KW_OD : tile.d + 1);
       depth += g.depth_groups) {
    Sums sums = {};
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const int first = step * g.input_channels_per_step;
      if (kSteps > 1) {
        __syncthreads();
        stage(shared, input, packed, tile, first);
      }
      const float* weights =
          g.weights_shared
              ? shared.weights + (kChannelInnermost ? channel : channel * kStepTaps)
              : packed + (kChannelInnermost ? first * g.taps() * g.packed_channels() + tile.channel + channel
                                            : (tile.channel + channel) * KW_C * g.taps() + first * g.taps());
      add_products(sums, shared.input, weights, input, reach, tile, depth, first);
    }
#pragma unroll
    for (int i = 0; i < kC; ++i)
#pragma unroll
      for (int j = 0; j < kP; ++j) {
        const float value = kw_before(sums[i][j] + offset[i], 0);
        results[i][j] = g.reduce_depth ? fold(results[i][j], value) : value;
      }
  }
}

// Folds what the groups of depths have; exchange is [group][result][thread of the group].
__device__ __forceinline__ void combine_depths(Sums& results, float* exchange, const Part& part) {
  constexpr int kEach = kC * kP * g.group_threads();
#pragma unroll
  for (int i = 0; i < kC; ++i)
#pragma unroll
    for (int j = 0; j < kP; ++j)
      exchange[part.depth_group * kEach + (i * kP + j) * g.group_threads() + part.lane] = results[i][j];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kC; ++i)
#pragma unroll
    for (int j = 0; j < kP; ++j)
      for (int other = 0; other < g.depth_groups; ++other)
        if (other != part.depth_group)
          results[i][j] = fold(results[i][j], exchange[other * kEach + (i * kP + j) * g.group_threads() + part.lane]);
  __syncthreads();
}

// To the other threads, [channel][position].
__device__ __forceinline__ void exchange_result(float* exchange, int channel, const Part& part, int j, float value) {
  exchange[channel * g.positions() + part.position + j * g.position_threads()] = value;
}

}  // namespace knobwise::plain_conv

extern "C" __global__ void __launch_bounds__(knobwise::plain_conv::kThreads)
    plain_conv(const float* input, const float* packed, float* output, const float* bias, const float* gamma,
               const float* beta) {
  using namespace knobwise::plain_conv;
  extern __shared__ float4 aligned[];
  float* const memory = reinterpret_cast<float*>(aligned);
  const Shared shared{memory, memory + g.weights_offset(), memory + g.exchange_offset()};
  const Tile tile = tile_of(blockIdx.x);
  const Part part = part_of(threadIdx.x);
  const Reach reach = reach_of(tile, part.position);
  if (kSteps == 1) stage(shared, input, packed, tile, 0);

  Sums results;
#pragma unroll 1
  for (int pass = 0; pass < g.passes; ++pass) {
    const int channel = pass * g.channels_per_block + part.channel;
    compute(results, shared, input, packed, bias, tile, part, reach, channel);
    if (g.depth_groups > 1) combine_depths(results, shared.exchange, part);
#if !KW_EPILOGUE_NORM
#pragma unroll
    for (int i = 0; i < kC; ++i)
#pragma unroll
      for (int j = 0; j < kP; ++j) {
        const float value = kw_between(KW_EPILOGUE_MEAN ? results[i][j] / KW_OD : results[i][j], 0);
        if (part.depth_group != 0) continue;
        if (g.softmax)
          exchange_result(shared.exchange, channel + i, part, j, value);
        else
          store(output, tile, tile.channel + channel + i, reach.at[j], value);
      }
#endif
  }
#if KW_EPILOGUE_SOFTMAX
  __syncthreads();
  softmax(shared.exchange, output, tile);
#elif KW_EPILOGUE_NORM
#ifdef KNOB_outputs_shared
#pragma unroll
  for (int i = 0; i < kC; ++i)
#pragma unroll
    for (int j = 0; j < kP; ++j) exchange_result(shared.exchange, part.channel + i, part, j, results[i][j]);
  __syncthreads();
#endif
  normalise({results, reach, shared.exchange, tile, part.channel}, output, tile, gamma, beta);
#endif
}

extern "C" __global__ void plain_conv_pack(const float* weights, float* packed) {
  using namespace knobwise::plain_conv;
  constexpr int kInner = KW_C * g.taps(), kChannels = g.packed_channels();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kInner * kChannels; i += gridDim.x * blockDim.x) {
    const int k = kChannelInnermost ? i % kChannels : i / kInner;
    const int inner = kChannelInnermost ? i / kChannels : i % kInner;
    packed[i] = k < KW_K ? weights[k * kInner + inner] : 0;
  }
}
