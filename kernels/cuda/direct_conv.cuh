// Direct convolution in fp32 with a fused epilogue: register tiles of channels x positions, the input's halo
// and the weights in shared memory.
//
// Compiled by NVRTC after the prelude (KW_* dimensions, KNOB_* knobs), the epilogue's description
// (KW_EPILOGUE_*) and functions (kw_before, kw_between, kw_after) and direct_conv_geometry.h, which says
// where everything lies.

namespace knobwise::direct_conv {

constexpr KW_HOST_DEVICE Geometry geometry() {
  return Geometry{KW_N,
                  KW_C,
                  KW_K,
                  KW_GROUPS,
                  {KW_D, KW_H, KW_W},
                  {KW_T, KW_R, KW_S},
                  {KW_STRIDE_D, KW_STRIDE_H, KW_STRIDE_W},
                  {KW_PAD_D, KW_PAD_H, KW_PAD_W},
                  {KW_DILATION_D, KW_DILATION_H, KW_DILATION_W},
                  {KW_OD, KW_OH, KW_OW},
                  {KNOB_tile_d, KNOB_tile_h, KNOB_tile_w},
                  {KNOB_pixels_d, KNOB_pixels_h, KNOB_pixels_w},
                  KNOB_vector_width,
                  KNOB_copy_width,
                  KNOB_channels_per_block,
                  KNOB_channels_per_thread,
                  KNOB_input_channels_per_step,
                  KNOB_tiles_per_block,
                  KNOB_stages,
                  KW_WEIGHTS_SHARED,
                  KW_CHANNELS_FIRST,
                  KW_EPILOGUE_REDUCE_DEPTH};
}
static_assert(geometry().consistent(), "the knobs do not fit together");

template <bool kWide>
struct OffsetType {
  using type = int;
};
template <>
struct OffsetType<true> {
  using type = long long;
};

constexpr int kThreads = geometry().threads();
constexpr int kChannels = geometry().channels_per_thread;
constexpr int kPixels = geometry().pixels_per_thread();
constexpr int kBlockChannels = geometry().channels_per_block;
constexpr int kChannelThreads = geometry().channel_threads();
constexpr int kChannelVector = geometry().channel_vector();
constexpr int kPixelsH = KNOB_pixels_h, kPixelsW = KNOB_pixels_w;
constexpr int kRun = KNOB_vector_width, kRuns = geometry().runs();
constexpr int kInputStage = geometry().input_stage(), kWeightStage = geometry().weight_stage();
constexpr int kStages = geometry().buffers();
constexpr int kGroupInputs = geometry().inputs_per_group(), kGroupOutputs = geometry().outputs_per_group();
constexpr long long kInPlane = 1LL * KW_D * KW_H * KW_W;
constexpr int kResultD = KW_EPILOGUE_REDUCE_DEPTH ? 1 : KW_OD;
constexpr long long kOutPlane = 1LL * kResultD * KW_OH * KW_OW;
/// Offsets within one sample's group of channels.
using InOffset = OffsetType<(kInPlane * kGroupInputs >= (1LL << 31))>::type;
using OutOffset = OffsetType<(kOutPlane * kGroupOutputs >= (1LL << 31))>::type;

constexpr int kPaddedChannels = KW_GROUPS * geometry().channel_blocks() * kBlockChannels;
constexpr long long kPackedBias = geometry().packed_elements();

/// Results that a thread holds after the reduction over depth.
constexpr int kResults = KW_EPILOGUE_REDUCE_DEPTH ? KNOB_pixels_h * KNOB_pixels_w : kPixels;

// ---- Memory access ----

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Copies kFloats floats to the shared address + kTarget bytes from global + kSource bytes asynchronously:
/// the first `bytes` (all or none) are read, zeros fill the rest.
template <int kFloats, int kTarget, long long kSource>
__device__ __forceinline__ void copy_async(unsigned shared, const float* global, int bytes) {
  if constexpr (kFloats == 4)
    asm volatile("cp.async.cg.shared.global [%0+%3], [%1+%4], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes),
                 "n"(kTarget), "n"(kSource));
  else
    asm volatile("cp.async.ca.shared.global [%0+%3], [%1+%4], %5, %2;" ::"r"(shared), "l"(global), "r"(bytes),
                 "n"(kTarget), "n"(kSource), "n"(4 * kFloats));
}

__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;");
}

/// Waits until at most kPending of the committed groups are under way.
template <int kPending>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

template <int kFloats>
__device__ __forceinline__ void load(float* values, const float* memory) {
  if constexpr (kFloats == 4) {
    const float4 v = *reinterpret_cast<const float4*>(memory);
    values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
  } else if constexpr (kFloats == 2) {
    const float2 v = *reinterpret_cast<const float2*>(memory);
    values[0] = v.x, values[1] = v.y;
  } else {
    values[0] = *memory;
  }
}

template <int kFloats>
__device__ __forceinline__ void load_read_only(float* values, const float* memory) {
  if constexpr (kFloats == 4) {
    const float4 v = __ldg(reinterpret_cast<const float4*>(memory));
    values[0] = v.x, values[1] = v.y, values[2] = v.z, values[3] = v.w;
  } else if constexpr (kFloats == 2) {
    const float2 v = __ldg(reinterpret_cast<const float2*>(memory));
    values[0] = v.x, values[1] = v.y;
  } else {
    values[0] = __ldg(memory);
  }
}

template <int kFloats>
__device__ __forceinline__ void store(float* memory, const float* values) {
  if constexpr (kFloats == 4)
    *reinterpret_cast<float4*>(memory) = make_float4(values[0], values[1], values[2], values[3]);
  else if constexpr (kFloats == 2)
    *reinterpret_cast<float2*>(memory) = make_float2(values[0], values[1]);
  else
    *memory = values[0];
}

// ---- Staging ----

/// Copies one vector of every channel of the step from kChannel on.
template <int kChannel>
__device__ __forceinline__ void copy_channels(unsigned target, const float* source, bool inside,
                                              int channels) {
  if constexpr (kChannel < KNOB_input_channels_per_step) {
    constexpr int kWidth = KNOB_copy_width;
    constexpr int kTarget = 4 * kChannel * geometry().channel_pitch();
    constexpr long long kSource = 4 * kChannel * kInPlane;
    const bool valid = inside && (kGroupInputs % KNOB_input_channels_per_step == 0 || kChannel < channels);
    const int bytes = valid ? 4 * kWidth : 0;
    if constexpr (kSource < (1 << 23))
      copy_async<kWidth, kTarget, kSource>(target, source, bytes);
    else
      copy_async<kWidth, kTarget, 0>(target, source + kSource / 4, bytes);
    copy_channels<kChannel + 1>(target, source, inside, channels);
  }
}

/// Starts the copies of the input that a tile needs of channels_per_step channels from `first_channel` on.
/// `input` is the first channel of the sample's group.
__device__ __forceinline__ void stage_input(unsigned stage, const float* input, Triple tile,
                                            int first_channel) {
  constexpr Geometry g = geometry();
  constexpr int kWidth = KNOB_copy_width, kCopies = g.copies_w(), kRows = g.staged_h();
  constexpr int kPerChannel = g.staged_d() * kRows * kCopies;
  constexpr int kDepthPitch = g.depth_pitch(), kRowPitch = g.row_pitch();
  const int first_d = tile.d * KNOB_tile_d * KW_STRIDE_D - KW_PAD_D;
  const int first_h = tile.h * KNOB_tile_h * KW_STRIDE_H - KW_PAD_H;
  const int first_w = tile.w * KNOB_tile_w * KW_STRIDE_W - KW_PAD_W - g.lead();
  input += static_cast<InOffset>(first_channel) * static_cast<InOffset>(kInPlane);
#pragma unroll 4
  for (int i = 0; i < ceil_div(kPerChannel, kThreads); ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    if (kPerChannel % kThreads == 0 || index < kPerChannel) {
      const int row = g.staged_d() * kRows == 1 ? 0 : index / kCopies;
      const int column = (index - row * kCopies) * kWidth;
      const int depth = g.staged_d() == 1 ? 0 : row / kRows, row_h = row - depth * kRows;
      const int d = first_d + depth, h = first_h + row_h, w = first_w + column;
      const bool inside = static_cast<unsigned>(d) < KW_D && static_cast<unsigned>(h) < KW_H &&
                          static_cast<unsigned>(w) < KW_W;
      const int target = depth * kDepthPitch + g.place_row(row_h) * kRowPitch + g.place_column(column);
      copy_channels<0>(stage + 4 * target, input + ((static_cast<InOffset>(d) * KW_H + h) * KW_W + w), inside,
                       kGroupInputs - first_channel);
    }
  }
}

/// Starts the copies of one step's weights from the thread's kCopy-th vector on; both pointers are the
/// thread's.
template <int kCopy>
__device__ __forceinline__ void copy_weights(unsigned target, const float* source) {
  constexpr int kFirst = kCopy * kThreads, kVectors = KW_WEIGHTS_SHARED ? kWeightStage / 4 : 0;
  if constexpr (kFirst < kVectors) {
    if (kFirst + kThreads <= kVectors || static_cast<int>(threadIdx.x) < kVectors - kFirst)
      copy_async<4, 16 * kFirst, 16LL * kFirst>(target, source, 16);
    copy_weights<kCopy + 1>(target, source);
  }
}

__device__ __forceinline__ void stage_weights(unsigned stage, const float* packed) {
  copy_weights<0>(stage + 16 * threadIdx.x, packed + 4 * threadIdx.x);
}

/// Where a step's operands lie in shared memory.
struct Staging {
  float* base;
  __device__ __forceinline__ float* weights(int step) const {
    return base + (geometry().weight_stages() <= 1 ? 0 : step % kStages * kWeightStage);
  }
  __device__ __forceinline__ float* input(int step) const {
    return base + geometry().weight_stages() * kWeightStage + step % kStages * kInputStage;
  }
};

/// Starts the copies of step `step` of `steps`, if there is one, as one group.
__device__ __forceinline__ void stage_step(const Staging& staging, const float* input, const float* packed,
                                           int first_tile, int step, int steps) {
  constexpr int kChannelSteps = geometry().channel_steps(), kTileSteps = geometry().steps();
  if (step < steps) {
    Triple tile = geometry().tile_at(first_tile + step / kTileSteps);
    if (KW_EPILOGUE_REDUCE_DEPTH) tile.d = step % kTileSteps / kChannelSteps;
    const int channel_step = step % kChannelSteps;
    stage_input(shared_address(staging.input(step)), input, tile,
                channel_step * KNOB_input_channels_per_step);
    if constexpr (geometry().weight_stages() == 1 && kChannelSteps == 1) {
      if (step == 0) stage_weights(shared_address(staging.weights(0)), packed);
    } else if constexpr (KW_WEIGHTS_SHARED) {
      stage_weights(shared_address(staging.weights(step)),
                    packed + static_cast<long long>(channel_step) * kWeightStage);
    }
  }
  commit_copies();
}

// ---- Arithmetic ----

/// Loads the inputs that segment kSegment of a row of taps needs and multiplies; then the segments after it.
/// `input` is the staged row of the thread's first position for one (channel, t, r), `weights` those of the
/// thread's first channel at s = 0.
template <int kSegment>
__device__ __forceinline__ void multiply_segments(float (&sums)[kChannels][kPixels], const float* input,
                                                  const float* weights) {
  constexpr Geometry g = geometry();
  if constexpr (kSegment < g.segments()) {
    constexpr int kLoad = g.load_width(), kRunStep = g.lanes().w * kRun, kRowPitch = g.row_pitch();
    constexpr int kBegin = g.window_begin(kSegment), kWindow = larger(1, g.window_end(kSegment) - kBegin);
    constexpr int kStart = g.segment_phase(kSegment) * g.phase_length() + kBegin;
    float window[kPixels / kRun][kWindow];
#pragma unroll
    for (int p = 0; p < kPixels / kRun; ++p) {
      const float* row = input + kStart + p % kRuns * kRunStep + p / kRuns % kPixelsH * kRowPitch +
                         p / (kRuns * kPixelsH) * KW_STRIDE_D * g.depth_pitch();
#pragma unroll
      for (int i = 0; i + kLoad <= kWindow; i += kLoad) load<kLoad>(&window[p][i], row + i);
    }
#pragma unroll
    for (int s = 0; s < KW_S; ++s) {
      if (!g.in_segment(kSegment, s)) continue;
      float weight[kChannels];
#pragma unroll
      for (int k = 0; k < kChannels; k += kChannelVector) {
        const float* source = weights + s * kBlockChannels + k * kChannelThreads;
        if constexpr (KW_WEIGHTS_SHARED)
          load<kChannelVector>(&weight[k], source);
        else
          load_read_only<kChannelVector>(&weight[k], source);
      }
#pragma unroll
      for (int k = 0; k < kChannels; ++k)
#pragma unroll
        for (int p = 0; p < kPixels; ++p)
          sums[k][p] = fmaf(weight[k], window[p / kRun][g.tap_index(s) - kBegin + p % kRun], sums[k][p]);
    }
    multiply_segments<kSegment + 1>(sums, input, weights);
  }
}

/// Adds the products of one step. Both pointers stand at the thread's first position and channel.
__device__ __forceinline__ void multiply_step(float (&sums)[kChannels][kPixels], const float* input,
                                              const float* weights) {
  constexpr Geometry g = geometry();
  constexpr int kUnrollRows = KNOB_unroll_rows, kUnrollChannels = KW_R == 1 ? KNOB_unroll_rows : 1;
#pragma unroll kUnrollChannels
  for (int c = 0; c < KNOB_input_channels_per_step; ++c)
#pragma unroll 1
    for (int t = 0; t < KW_T; ++t)
#pragma unroll kUnrollRows
      for (int r = 0; r < KW_R; ++r)
        multiply_segments<0>(sums,
                             input + c * g.channel_pitch() + t * KW_DILATION_D * g.depth_pitch() +
                                 g.place_row(r * KW_DILATION_H) * g.row_pitch(),
                             weights + ((c * KW_T + t) * KW_R + r) * KW_S * kBlockChannels);
}

// ---- Epilogue ----

/// What a thread of the epilogue works on.
struct Place {
  BlockOrigin block;
  Triple tile;
  int channel_thread, pixel_thread;

  /// Channel of the whole output; may be past the group's last.
  __device__ __forceinline__ int group_channel(int k) const {
    return block.channel_block * kBlockChannels + geometry().channel(channel_thread, k);
  }
  /// Index in the padded per-channel vectors of the packed parameters.
  __device__ __forceinline__ int padded_channel(int k) const {
    return (block.group * geometry().channel_blocks() + block.channel_block) * kBlockChannels +
           geometry().channel(channel_thread, k);
  }
  __device__ __forceinline__ bool channel_valid(int k) const {
    return kGroupOutputs % kBlockChannels == 0 || group_channel(k) < kGroupOutputs;
  }
  /// Output position of the thread's result `index`.
  __device__ __forceinline__ Position position(int index) const {
    const Position p = geometry().position(pixel_thread, index);
    return {KW_EPILOGUE_REDUCE_DEPTH ? 0 : tile.d * KNOB_tile_d + p.d, tile.h * KNOB_tile_h + p.h,
            tile.w * KNOB_tile_w + p.w};
  }
  __device__ __forceinline__ bool valid(Position p) const {
    return (kResultD % KNOB_tile_d == 0 || p.d < kResultD) && (KW_OH % KNOB_tile_h == 0 || p.h < KW_OH) &&
           (KW_OW % KNOB_tile_w == 0 || p.w < KW_OW);
  }
};

__device__ __forceinline__ OutOffset output_offset(Position p) {
  return (static_cast<OutOffset>(p.d) * KW_OH + p.h) * KW_OW + p.w;
}

/// First element of the output of the block's sample and group.
__device__ __forceinline__ float* group_output(float* output, const BlockOrigin& block) {
  return output + (static_cast<long long>(block.sample) * KW_K + block.group * kGroupOutputs) * kOutPlane;
}

/// Starts every sum from the bias.
__device__ __forceinline__ void start_sums(float (&sums)[kChannels][kPixels], const float* packed,
                                           const Place& place) {
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    const float bias = KW_BIAS ? __ldg(packed + kPackedBias + place.padded_channel(k)) : 0.0f;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) sums[k][p] = bias;
  }
}

/// Writes the thread's results.
__device__ __forceinline__ void store_results(const float (&results)[kChannels][kResults], float* output,
                                              const Place& place) {
  constexpr int kStore = smaller(access_width(kRun), access_width(KW_OW));
  float* base = group_output(output, place.block);
#pragma unroll
  for (int p = 0; p < kResults; p += kStore) {
    const Position position = place.position(p);
    if (!place.valid(position)) continue;
    const OutOffset offset = output_offset(position);
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
      if (place.channel_valid(k))
        store<kStore>(base +
                          static_cast<OutOffset>(place.group_channel(k)) * static_cast<OutOffset>(kOutPlane) +
                          offset,
                      &results[k][p]);
  }
}

#if KW_EPILOGUE_REDUCE_DEPTH
__device__ __forceinline__ float fold(float a, float b) {
#if KW_EPILOGUE_MIN
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#elif KW_EPILOGUE_MAX
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a + b;
#endif
}

/// What every depth folds into.
__device__ __forceinline__ void start_results(float (&results)[kChannels][kResults]) {
  const float kInfinity = __int_as_float(0x7f800000);
#pragma unroll
  for (int k = 0; k < kChannels; ++k)
#pragma unroll
    for (int p = 0; p < kResults; ++p)
      results[k][p] = KW_EPILOGUE_MIN ? kInfinity : KW_EPILOGUE_MAX ? -kInfinity : 0.0f;
}

/// Folds the sums of depth tile `depth_tile` into the results.
__device__ __forceinline__ void fold_depths(float (&results)[kChannels][kResults],
                                            const float (&sums)[kChannels][kPixels], int depth_tile) {
#pragma unroll
  for (int d = 0; d < KNOB_pixels_d; ++d) {
    if (KW_OD % KNOB_pixels_d != 0 && depth_tile * KNOB_pixels_d + d >= KW_OD) continue;
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
#pragma unroll
      for (int p = 0; p < kResults; ++p)
        results[k][p] = fold(results[k][p], kw_before(sums[k][d * kResults + p], 0));
  }
}

__device__ __forceinline__ void finish_results(float (&results)[kChannels][kResults]) {
#pragma unroll
  for (int k = 0; k < kChannels; ++k)
#pragma unroll
    for (int p = 0; p < kResults; ++p)
      results[k][p] = kw_between(KW_EPILOGUE_MEAN ? results[k][p] / KW_OD : results[k][p], 0);
}
#endif

#if KW_EPILOGUE_SOFTMAX
/// Softmax over the channels of every position of the tile: the block holds them all. Needs kSoftmaxElements
/// of shared memory.
__device__ __forceinline__ void softmax_channels(const float (&results)[kChannels][kResults], float* shared,
                                                 float* output, const Place& place) {
  constexpr int kTileD = KW_EPILOGUE_REDUCE_DEPTH ? 1 : KNOB_tile_d;
  constexpr int kPositions = kTileD * KNOB_tile_h * KNOB_tile_w;
#pragma unroll
  for (int k = 0; k < kChannels; ++k)
#pragma unroll
    for (int p = 0; p < kResults; ++p) {
      const Position at = geometry().position(place.pixel_thread, p);
      const int d = KW_EPILOGUE_REDUCE_DEPTH ? 0 : at.d;
      shared[geometry().channel(place.channel_thread, k) * kPositions +
             (d * KNOB_tile_h + at.h) * KNOB_tile_w + at.w] = results[k][p];
    }
  __syncthreads();
  float* base = group_output(output, place.block);
  for (int index = threadIdx.x; index < kPositions; index += kThreads) {
    const Position position{
        (KW_EPILOGUE_REDUCE_DEPTH ? 0 : place.tile.d * KNOB_tile_d) + index / (KNOB_tile_w * KNOB_tile_h),
        place.tile.h * KNOB_tile_h + index / KNOB_tile_w % KNOB_tile_h,
        place.tile.w * KNOB_tile_w + index % KNOB_tile_w};
    if (!place.valid(position)) continue;
    float* column = shared + index;
    float highest = column[0];
    for (int k = 1; k < KW_K; ++k) highest = fmaxf(highest, column[k * kPositions]);
    float sum = 0;
    for (int k = 0; k < KW_K; ++k) {
      const float power = expf(column[k * kPositions] - highest);
      column[k * kPositions] = power;
      sum += power;
    }
    for (int k = 0; k < KW_K; ++k)
      base[static_cast<OutOffset>(k) * static_cast<OutOffset>(kOutPlane) + output_offset(position)] =
          kw_after(column[k * kPositions] / sum, 0);
  }
}
#endif

#if KW_EPILOGUE_NORM
#if KW_NORM_AFFINE
constexpr long long kPackedScale = kPackedBias + KW_BIAS * kPaddedChannels;
constexpr long long kPackedShift = kPackedScale + kPaddedChannels;
#endif
constexpr int kNormChannels = KW_K / KW_NORM_GROUPS;
/// Threads that sum one channel together: a warp, or a single thread where the block is no whole warp.
constexpr int kTeam = kThreads >= 32 ? 32 : 1, kTeams = kThreads / kTeam;
constexpr int kPixelThreads = geometry().pixel_threads();

/// Sums, over the valid positions of the block, (x - centre)^power for power 1 or 2 of every channel of the
/// block into totals[channels_per_block]; `centre` is by register. Ends with a barrier.
template <int kPower>
__device__ __forceinline__ void channel_totals(const float (&values)[kChannels][kPixels],
                                               const float (&centre)[kChannels], const Place& place,
                                               float* partial, float* totals) {
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      const float x = values[k][p] - centre[k];
      if (place.valid(place.position(p))) sum += kPower == 1 ? x : x * x;
    }
    partial[geometry().channel(place.channel_thread, k) * kPixelThreads + place.pixel_thread] = sum;
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kTeam, team = static_cast<int>(threadIdx.x) / kTeam;
  for (int channel = team; team < kTeams && channel < kBlockChannels; channel += kTeams) {
    float sum = 0;
    for (int p = lane; p < kPixelThreads; p += kTeam) sum += partial[channel * kPixelThreads + p];
    for (int step = kTeam / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) totals[channel] = sum;
  }
  __syncthreads();
}

#if KW_NORM_IN_BLOCK
/// Sum of the block's totals over the norm's group of each of the thread's channels.
__device__ __forceinline__ void group_totals(float (&sums)[kChannels], const float* totals,
                                             const Place& place) {
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    const int first = geometry().channel(place.channel_thread, k) / kNormChannels * kNormChannels;
    float sum = 0;
    for (int j = 0; j < kNormChannels; ++j) sum += totals[first + j];
    sums[k] = sum;
  }
}

/// Normalises the thread's values in place: the block holds whole groups of the norm.
__device__ __forceinline__ void normalise(float (&values)[kChannels][kPixels], const float* packed,
                                          float* shared, const Place& place) {
  constexpr float kCount = static_cast<float>(kNormChannels * kOutPlane);
  float* totals = shared + kBlockChannels * kPixelThreads;
  float mean[kChannels], variance[kChannels];
#pragma unroll
  for (int k = 0; k < kChannels; ++k) mean[k] = 0;
  channel_totals<1>(values, mean, place, shared, totals);
  group_totals(mean, totals, place);
#pragma unroll
  for (int k = 0; k < kChannels; ++k) mean[k] /= kCount;
  channel_totals<2>(values, mean, place, shared, totals);
  group_totals(variance, totals, place);
#pragma unroll
  for (int k = 0; k < kChannels; ++k) {
    float scale = 1.0f / sqrtf(variance[k] / kCount + KW_NORM_EPS), shift = 0.0f;
#if KW_NORM_AFFINE
    scale *= __ldg(packed + kPackedScale + place.padded_channel(k));
    shift = __ldg(packed + kPackedShift + place.padded_channel(k));
#endif
#pragma unroll
    for (int p = 0; p < kPixels; ++p)
      values[k][p] = kw_between(fmaf(values[k][p] - mean[k], scale, shift), 0);
  }
}
#else
/// Valid positions of an output tile.
__device__ __forceinline__ int tile_count(Triple tile) {
  return smaller(KNOB_tile_d, KW_OD - tile.d * KNOB_tile_d) *
         smaller(KNOB_tile_h, KW_OH - tile.h * KNOB_tile_h) *
         smaller(KNOB_tile_w, KW_OW - tile.w * KNOB_tile_w);
}

constexpr int kTiles = static_cast<int>(geometry().tiles_per_sample());

/// Writes (mean, sum of squared deviations) of the block's tile for every channel: workspace
/// [sample][channel][tile][2].
__device__ __forceinline__ void write_statistics(const float (&values)[kChannels][kPixels], float* workspace,
                                                 float* shared, const Place& place) {
  float* totals = shared + kBlockChannels * kPixelThreads;
  const float count = static_cast<float>(tile_count(place.tile));
  const Triple tiles = geometry().tiles(), tile = place.tile;
  const int tile_index = (tile.d * tiles.h + tile.h) * tiles.w + tile.w;
  float mean[kChannels];
#pragma unroll
  for (int k = 0; k < kChannels; ++k) mean[k] = 0;
  channel_totals<1>(values, mean, place, shared, totals);
#pragma unroll
  for (int k = 0; k < kChannels; ++k) mean[k] = totals[geometry().channel(place.channel_thread, k)] / count;
  channel_totals<2>(values, mean, place, shared, totals);
  if (place.pixel_thread == 0) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
      if (place.channel_valid(k)) {
        float* target = workspace + 2 * ((static_cast<long long>(place.block.sample) * KW_K +
                                          place.block.group * kGroupOutputs + place.group_channel(k)) *
                                             kTiles +
                                         tile_index);
        target[0] = mean[k];
        target[1] = totals[geometry().channel(place.channel_thread, k)];
      }
  }
}

struct Statistics {
  float count, mean, squares;
};

/// Joins the statistics of two disjoint sets (Chan, Golub and LeVeque's pairwise update).
__device__ __forceinline__ Statistics join(Statistics a, Statistics b) {
  const float count = a.count + b.count;
  if (count == 0) return a;
  const float delta = b.mean - a.mean, share = b.count / count;
  return {count, fmaf(delta, share, a.mean), a.squares + b.squares + delta * delta * a.count * share};
}
#endif
#endif

/// Writes the results of one tile, with what the epilogue still has to do to them.
__device__ __forceinline__ void write_results(float (&results)[kChannels][kResults], const float* packed,
                                              float* output, float* workspace, float* shared,
                                              const Place& place) {
#if KW_EPILOGUE_SOFTMAX || KW_EPILOGUE_NORM
  if (geometry().tiles_per_block == 1) __syncthreads();
#endif
#if KW_EPILOGUE_SOFTMAX
  softmax_channels(results, shared, output, place);
#elif KW_EPILOGUE_NORM && KW_NORM_IN_BLOCK
  normalise(results, packed, shared, place);
  store_results(results, output, place);
#else
  store_results(results, output, place);
#if KW_EPILOGUE_NORM
  write_statistics(results, workspace, shared, place);
#endif
#endif
}

}  // namespace knobwise::direct_conv

/// Packs weights, bias and the norm's affine parameters for the kernel below, zeros where a tile reaches past
/// the last channel. The pointers that a problem does not have are not parameters.
extern "C" __global__ void direct_conv_pack(const float* weights,
#if KW_BIAS
                                            const float* bias,
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
                                            const float* scale, const float* shift,
#endif
                                            float* packed) {
  using namespace knobwise::direct_conv;
  constexpr Geometry g = geometry();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long long index = first; index < g.packed_elements(); index += step) {
    const int in_stage = static_cast<int>(index % kWeightStage);
    const long long stage = index / kWeightStage;
    const int c = static_cast<int>(stage % g.channel_steps()) * KNOB_input_channels_per_step +
                  in_stage / g.weights_per_input();
    const int tap = in_stage / kBlockChannels % g.taps(), k = in_stage % kBlockChannels;
    const int block = static_cast<int>(stage / g.channel_steps());
    const int channel = block % g.channel_blocks() * kBlockChannels + k;
    const bool valid = in_stage < KNOB_input_channels_per_step * g.weights_per_input() && c < kGroupInputs &&
                       channel < kGroupOutputs;
    const long long row = static_cast<long long>(block / g.channel_blocks()) * kGroupOutputs + channel;
    packed[index] = valid ? weights[(row * kGroupInputs + c) * g.taps() + tap] : 0.0f;
  }
  for (long long index = first; index < kPaddedChannels; index += step) {
    const int block = static_cast<int>(index) / kBlockChannels;
    const int channel =
        block % g.channel_blocks() * kBlockChannels + static_cast<int>(index) % kBlockChannels;
    const int source = block / g.channel_blocks() * kGroupOutputs + channel;
    const bool valid = channel < kGroupOutputs;
#if KW_BIAS
    packed[kPackedBias + index] = valid ? bias[source] : 0.0f;
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
    packed[kPackedScale + index] = valid ? scale[source] : 0.0f;
    packed[kPackedShift + index] = valid ? shift[source] : 0.0f;
#endif
  }
}

extern "C" __global__ void __launch_bounds__(knobwise::direct_conv::kThreads, KNOB_min_blocks)
    direct_conv(const float* __restrict__ input, const float* __restrict__ packed, float* __restrict__ output,
                float* __restrict__ workspace) {
  using namespace knobwise::direct_conv;
  constexpr Geometry g = geometry();
  extern __shared__ __align__(16) float shared[];

  const int thread = static_cast<int>(threadIdx.x);
  Place place{g.origin(blockIdx.x), {}, g.channel_thread(thread), g.pixel_thread(thread)};
  const int first_tile = place.block.first_tile, tiles = g.block_tiles(first_tile), steps = tiles * g.steps();
  const float* group_input =
      input +
      (static_cast<long long>(place.block.sample) * KW_C + place.block.group * kGroupInputs) * kInPlane;
  const float* block_weights =
      packed + (place.block.group * g.channel_blocks() + place.block.channel_block) * g.packed_block();
  const Staging staging{shared};

  const Position first = g.first_position(place.pixel_thread);
  const int input_offset = first.d * KW_STRIDE_D * g.depth_pitch() + first.h * g.row_pitch() + first.w;
  const int weight_offset = place.channel_thread * kChannelVector;

#pragma unroll
  for (int step = 0; step < kStages - 1; ++step)
    stage_step(staging, group_input, block_weights, first_tile, step, steps);

  int step = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    place.tile = g.tile_at(first_tile + tile);
    float sums[kChannels][kPixels];
    start_sums(sums, packed, place);
#if KW_EPILOGUE_REDUCE_DEPTH
    float results[kChannels][kResults];
    start_results(results);
#endif
#pragma unroll 1
    for (int tile_step = 0; tile_step < g.steps(); ++tile_step, ++step) {
      if constexpr (kStages == 1) {
        if (step > 0) __syncthreads();
        stage_step(staging, group_input, block_weights, first_tile, step, steps);
        await_copies<0>();
        __syncthreads();
      } else {
        await_copies<kStages - 2>();
        __syncthreads();
        stage_step(staging, group_input, block_weights, first_tile, step + kStages - 1, steps);
      }
      const float* weights =
          KW_WEIGHTS_SHARED ? staging.weights(step)
                            : block_weights + static_cast<long long>(step % g.channel_steps()) * kWeightStage;
      multiply_step(sums, staging.input(step) + input_offset, weights + weight_offset);
#if KW_EPILOGUE_REDUCE_DEPTH
      if (g.channel_steps() == 1 || tile_step % g.channel_steps() == g.channel_steps() - 1) {
        fold_depths(results, sums, tile_step / g.channel_steps());
        start_sums(sums, packed, place);
      }
#endif
    }
#if KW_EPILOGUE_REDUCE_DEPTH
    finish_results(results);
    write_results(results, packed, output, workspace, shared + g.epilogue_begin(), place);
#else
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
#pragma unroll
      for (int p = 0; p < kPixels; ++p) sums[k][p] = kw_before(sums[k][p], 0);
    write_results(sums, packed, output, workspace, shared + g.epilogue_begin(), place);
#endif
  }
}

#if KW_EPILOGUE_NORM && !KW_NORM_IN_BLOCK
/// Normalises the output in place from the tiles' statistics: block = 1 chunk of one channel's plane.
extern "C" __global__ void __launch_bounds__(knobwise::direct_conv::kNormaliseThreads)
    direct_conv_normalise(const float* __restrict__ packed, float* output,
                          const float* __restrict__ workspace) {
  using namespace knobwise::direct_conv;
  constexpr Geometry g = geometry();
  constexpr int kChunk = kNormaliseChunk, kWidth = access_width(static_cast<int>(kOutPlane % 4));
  constexpr int kChunks = static_cast<int>((kOutPlane + kChunk - 1) / kChunk);
  constexpr int kCount = kNormaliseThreads / 32;
  __shared__ Statistics warps[kCount];
  const int chunk = static_cast<int>(blockIdx.x % kChunks);
  const long long row = blockIdx.x / kChunks;  // sample * KW_K + channel
  const int channel = static_cast<int>(row % KW_K);

  const float* source = workspace + 2 * (row - channel % kNormChannels) * kTiles;
  Statistics all{0, 0, 0};
  for (int index = threadIdx.x; index < kNormChannels * kTiles; index += kNormaliseThreads) {
    const int t = index % kTiles;
    const Triple tiles = g.tiles(), tile{t / (tiles.w * tiles.h), t / tiles.w % tiles.h, t % tiles.w};
    all =
        join(all, Statistics{static_cast<float>(tile_count(tile)), source[2 * index], source[2 * index + 1]});
  }
  for (int step = 16; step > 0; step /= 2) {
    const Statistics other{__shfl_xor_sync(0xffffffffu, all.count, step),
                           __shfl_xor_sync(0xffffffffu, all.mean, step),
                           __shfl_xor_sync(0xffffffffu, all.squares, step)};
    all = join(all, other);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = all;
  __syncthreads();
  all = warps[0];
  for (int warp = 1; warp < kCount; ++warp) all = join(all, warps[warp]);

  float scale = 1.0f / sqrtf(all.squares / all.count + KW_NORM_EPS), shift = 0.0f;
#if KW_NORM_AFFINE
  const int group = channel / kGroupOutputs, in_group = channel % kGroupOutputs;
  const int padded = group * g.channel_blocks() * kBlockChannels + in_group;
  scale *= __ldg(packed + kPackedScale + padded);
  shift = __ldg(packed + kPackedShift + padded);
#endif
  float* plane = output + row * kOutPlane;
  for (long long index = 1LL * chunk * kChunk + kWidth * threadIdx.x;
       index < (chunk + 1LL) * kChunk && index < kOutPlane; index += kWidth * kNormaliseThreads) {
    float values[kWidth];
    load<kWidth>(values, plane + index);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = kw_between(fmaf(values[i] - all.mean, scale, shift), 0);
    store<kWidth>(plane + index, values);
  }
}
#endif
