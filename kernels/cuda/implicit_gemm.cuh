// Convolution as a matrix product of output channels and output positions on the tensor cores (mma.sync, sm_80
// and up; wgmma, sm_90): the input's halo lies in shared memory, already rounded and split, and every lane
// gathers its operands from there. The kernels; their parts are the implicit_gemm_*.cuh, compiled before.

namespace knobwise::implicit_gemm {

/// Vector v of the weights of column `column` of a block, in one of its steps; `stage` counts both.
__device__ __forceinline__ Entry weight_entry(const Element* weights, int stage, int v, int column) {
  constexpr Geometry g = geometry();
  const int channel_step = stage % g.channel_steps(), block = stage / g.channel_steps();
  const int channel = block % g.channel_blocks() * kBlockChannels + column % kBlockChannels;
  const long long row = static_cast<long long>(block / g.channel_blocks()) * kGroupOutputs + channel;
  Staged values[kVector];
  for (int e = 0; e < kVector; ++e) {
    const int in_step = g.element_channel(v, e);
    const int c = channel_step * KNOB_input_channels_per_step + in_step;
    const Triple tap = g.element_tap(v, e);
    const bool valid = v < g.vectors() && in_step < KNOB_input_channels_per_step && c < kGroupInputs &&
                       channel < kGroupOutputs && tap.w < KW_S;
    const int depth = tap.d + g.column_depth_tap(column);
    values[e] = Staged{0};
    if (valid) values[e] = to_staged(weights[(((row * kGroupInputs + c) * KW_T + depth) * KW_R + tap.h) * KW_S + tap.w]);
  }
  const Entry entry = make_entry(values);
#if KNOB_precision_fp16_e5m2
  return {{entry.words[0], entry.words[1], entry.words[3], entry.words[2]}};
#else
  return entry;
#endif
}

/// A block's operands: where they come from and where they lie in shared memory.
struct BlockOperands {
  static constexpr bool kWeightsOnce = KW_WEIGHTS_RESIDENT || geometry().channel_steps() == 1;
  BlockOrigin block;
  const Element* input;          ///< The group's first channel of the first sample.
  const unsigned char* weights;  ///< Packed, those of the block.
  unsigned char* shared;

  __device__ __forceinline__ unsigned char* input_buffer(int step) const {
    constexpr Geometry g = geometry();
    return shared + g.input_begin() + step % kBuffers * g.input_bytes();
  }
  __device__ __forceinline__ unsigned char* weight_buffer(int step) const {
    constexpr Geometry g = geometry();
    const int buffer = KW_WEIGHTS_RESIDENT ? step % g.channel_steps() : g.channel_steps() == 1 ? 0 : step % kBuffers;
    return shared + g.weights_begin() + buffer * g.weight_step_bytes();
  }
  __device__ __forceinline__ const unsigned char* step_weights(int step, const Step& at) const {
    return KW_WEIGHTS_SHARED ? weight_buffer(step)
                             : weights + static_cast<long long>(at.channel_step) * geometry().weight_step_bytes();
  }
  /// Stages the weights that stay; all threads.
  __device__ __forceinline__ void stage_weights_once(int thread) const {
    constexpr Geometry g = geometry();
    if (!KW_WEIGHTS_SHARED || !kWeightsOnce) return;
    for (int step = 0; step < g.channel_steps(); ++step)
      stage_weights(shared + g.weights_begin() + step * g.weight_step_bytes(), weights, step, thread, kThreads);
    await_copies();
  }
  /// Stages what a step needs besides; `stager` of kStagers.
  __device__ __forceinline__ void stage(int step, int stager) const {
    const Step at = step_at(block, step);
    if (KW_WEIGHTS_SHARED && !kWeightsOnce)
      stage_weights(weight_buffer(step), weights, at.channel_step, stager, kStagers);
    stage_input(input_buffer(step), input + static_cast<long long>(at.place.sample) * KW_C * kInPlane, at, stager);
    await_copies();
  }
};

/// All that a thread of the producers does.
__device__ __forceinline__ void produce(const BlockOperands& operands, const Handover& handover, int steps) {
#if KW_PRODUCER_REGISTERS
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(KW_PRODUCER_REGISTERS));
#endif
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    handover.await_emptied(step);
    operands.stage(step, static_cast<int>(threadIdx.x) - kConsumers);
    handover.filled(step);
  }
}

#if KW_EPILOGUE_REDUCE_DEPTH
/// Multiplies every output depth of a step and folds its sums into the results. `columns` are the byte offsets of the
/// lane's columns in `input`.
#if KW_WALK_INPUTS
__device__ __forceinline__ void walk_depths(Results& results, Sums& sums, Feed& feed, const float (&bias)[kChannels],
                                            const unsigned char* input, const int (&columns)[kColumnTiles],
                                            const Offsets& offsets, const unsigned char* weights, const Place& place) {
  constexpr Geometry g = geometry();
  constexpr int kDepthBytes = g.depth_pitch() * kEntryBytes;
#pragma unroll
  for (int slice = 0; slice < KW_T; ++slice) start_sums(sums, bias, slice);
#pragma unroll 1
  for (int first = 0; first < g.staged_d(); first += KW_T)
#pragma unroll
    for (int phase = 0; phase < KW_T; ++phase) {
      const int depth = first + phase;
      if (depth >= g.staged_d()) break;
      const unsigned char* input_at = input + depth * kDepthBytes;
      const unsigned char* next = depth + 1 < g.staged_d() ? input_at + kDepthBytes : nullptr;
      if (depth == 0 || !Feed::kStepsFollow) feed.begin(input_at, columns, offsets);
      start_sums(sums, bias, phase);
      multiply_step(sums, feed, input_at, next, columns, offsets, weights + g.phase_column(phase) * 16, place,
                    bias);
      if (depth >= KW_T - 1) fold_sums(results, sums, (phase + 1) % KW_T);
    }
}
#else
__device__ __forceinline__ void walk_depths(Results& results, Sums& sums, Feed& feed, const float (&bias)[kChannels],
                                            const unsigned char* input, const int (&columns)[kColumnTiles],
                                            const Offsets& offsets, const unsigned char* weights, const Place& place) {
  constexpr int kDepthBytes = KW_STRIDE_D * geometry().depth_pitch() * kEntryBytes;
#pragma unroll 1
  for (int depth = 0; depth < KW_OD; ++depth) {
    const unsigned char* input_at = input + depth * kDepthBytes;
    const unsigned char* next = depth + 1 < KW_OD ? input_at + kDepthBytes : nullptr;
    if (depth == 0 || !Feed::kStepsFollow) feed.begin(input_at, columns, offsets);
    start_sums(sums, bias);
    multiply_step(sums, feed, input_at, next, columns, offsets, weights, place, bias);
    fold_sums(results, sums);
  }
}
#endif
#endif

}  // namespace knobwise::implicit_gemm

/// Packs weights (rounded and split), bias and the norm's affine parameters, zeros where a tile reaches past
/// the last channel or tap. The pointers that a problem does not have are not parameters.
extern "C" __global__ void implicit_gemm_pack(const knobwise::Element* weights,
#if KW_BIAS
                                              const knobwise::Element* bias,
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
                                              const knobwise::Element* scale,
                                              const knobwise::Element* shift,
#endif
                                              float* packed) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm;
  constexpr Geometry g = geometry();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kColumns = g.weight_columns(), kStepWords = 2 * kColumns;  // of a k step and term, 16 bytes each
  for (long long index = first; index < g.packed_weight_bytes() / (16 * kSplits); index += step) {
    const int k_step = static_cast<int>(index / kStepWords % g.k_steps());
    const int stage = static_cast<int>(index / (kStepWords * g.k_steps()));
    const int in_step = static_cast<int>(index % kStepWords);
#if KW_WARPGROUP
    // Word 0 or 1 of the 4 vectors of a column.
    const int half = in_step / kColumns;
    Entry entries[4];
    for (int i = 0; i < 4; ++i) entries[i] = weight_entry(weights, stage, 4 * k_step + i, in_step % kColumns);
    uint4* target = reinterpret_cast<uint4*>(packed) + index / kStepWords * kStepWords * kSplits + in_step;
    for (int term = 0; term < kSplits; ++term)
      target[kStepWords * term] = make_uint4(entries[0].words[2 * term + half], entries[1].words[2 * term + half],
                                             entries[2].words[2 * term + half], entries[3].words[2 * term + half]);
#else
    // A lane's operands: word 0 of channel lane / 4, then of the channel 8 further, then word 1 of both.
    const int lane = in_step % 32;
    Entry halves[2];
    for (int half = 0; half < 2; ++half)
      halves[half] = weight_entry(weights, stage, 4 * k_step + lane % 4, in_step / 32 * 16 + half * 8 + lane / 4);
    uint4* target = reinterpret_cast<uint4*>(packed) + index / 32 * 32 * kSplits + lane;
    for (int term = 0; term < kSplits; ++term)
      target[32 * term] = make_uint4(halves[0].words[2 * term], halves[1].words[2 * term],
                                     halves[0].words[2 * term + 1], halves[1].words[2 * term + 1]);
#endif
  }
  for (long long index = first; index < kPaddedChannels; index += step) {
    const int block = static_cast<int>(index) / kBlockChannels;
    const int channel = block % g.channel_blocks() * kBlockChannels + static_cast<int>(index) % kBlockChannels;
    const int source = block / g.channel_blocks() * kGroupOutputs + channel;
    const bool valid = channel < kGroupOutputs;
#if KW_BIAS
    packed[kPackedBias + index] = valid ? to_float(bias[source]) : 0.0f;
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
    packed[kPackedScale + index] = valid ? to_float(scale[source]) : 0.0f;
    packed[kPackedShift + index] = valid ? to_float(shift[source]) : 0.0f;
#endif
    (void)source, (void)valid;
  }
}

extern "C" __global__ void
#if KW_EPILOGUE_NORM && KW_CLUSTER > 1
__cluster_dims__(KW_CLUSTER, 1, 1)
#endif
    __launch_bounds__(knobwise::implicit_gemm::kThreads, KNOB_min_blocks)
        implicit_gemm(const knobwise::Element* __restrict__ input,
                      const float* __restrict__ packed,
                      knobwise::implicit_gemm::Result* __restrict__ output, const knobwise::Element* __restrict__ residual) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm;
  constexpr Geometry g = geometry();
  extern __shared__ __align__(128) unsigned char shared[];

  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  Place place{g.origin(blockIdx.x), {}, warp % g.position_warps(), warp / g.position_warps(),
              thread % 32};
  const int steps = steps_of(place.block);
  const BlockOperands operands{
      place.block, input + static_cast<long long>(place.block.group * kGroupInputs) * (KW_NHWC ? 1 : kInPlane),
      reinterpret_cast<const unsigned char*>(packed) +
          static_cast<long long>(place.block.group * g.channel_blocks() + place.block.channel_block) *
              g.channel_steps() * g.weight_step_bytes(),
      shared};

  int* offsets = reinterpret_cast<int*>(shared);
  for (int v = thread; v < 4 * g.k_steps(); v += kThreads) offsets[v] = g.vector_offset(v) * kEntryBytes;
  const Handover handover(shared);
  if (kThreads > kConsumers && thread == 0) handover.init();
  int columns[kColumnTiles];
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const int position = g.column_position(place.position_warp, n, place.lane / 4);
    columns[n] = g.position_entry(g.position_at(position < g.positions() ? position : 0)) * kEntryBytes;
  }
  operands.stage_weights_once(thread);
  __syncthreads();
  if constexpr (kThreads > kConsumers) {
    if (thread >= kConsumers) return produce(operands, handover, steps);
#if KW_CONSUMER_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(KW_CONSUMER_REGISTERS));
#endif
  }

  const Offsets lane_offsets(offsets + thread % 4);
  Sums sums;
  Feed feed;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if constexpr (kThreads == kConsumers) {
      if (step > 0) __syncthreads();
      operands.stage(step, thread);
      __syncthreads();
    }
    const Step at = step_at(place.block, step);
    const unsigned char* weights = operands.step_weights(step, at);
    Results results;
#if KW_EPILOGUE_REDUCE_DEPTH
    float bias[kChannels];
    load_bias(bias, packed, place);
#pragma unroll
    for (int p = 0; p < kPositions; ++p)
#pragma unroll
      for (int c = 0; c < kChannels; ++c) results[p][c] = fold_identity();
#else
    float bias[kChannels];
    if (at.first) {
      load_bias(bias, packed, place);
      start_sums(sums, bias);
    }
#endif
    if (kThreads > kConsumers) handover.await_filled(step);
#if KW_EPILOGUE_REDUCE_DEPTH
    walk_depths(results, sums, feed, bias, operands.input_buffer(step), columns, lane_offsets, weights, place);
#else
    feed.begin(operands.input_buffer(step), columns, lane_offsets);
    multiply_step(sums, feed, operands.input_buffer(step), nullptr, columns, lane_offsets, weights, place,
                  bias);
#endif
    if (kThreads > kConsumers) handover.emptied(step);
    if (!at.last) continue;
    place.at = at.place;
#if KW_EPILOGUE_REDUCE_DEPTH
#pragma unroll
    for (int p = 0; p < kPositions; ++p)
#pragma unroll
      for (int c = 0; c < kChannels; ++c)
        results[p][c] = kw_between(KW_EPILOGUE_MEAN ? results[p][c] / KW_OD : results[p][c], 0);
#else
#pragma unroll
    for (int p = 0; p < kPositions; ++p)
#pragma unroll
      for (int c = 0; c < kChannels; ++c) results[p][c] = kw_before(total(sums, p, c), 0);
#endif
#if KW_EPILOGUE_SOFTMAX
    softmax_channels(results, place);
#elif KW_EPILOGUE_NORM
    normalise(results, packed, reinterpret_cast<float*>(shared + g.norm_begin()), place);
#endif
    store_results(results, output, residual, place,
                  reinterpret_cast<Result*>(shared + g.epilogue_begin() + warp / g.store_warps() * g.out_bytes()));
  }
}
