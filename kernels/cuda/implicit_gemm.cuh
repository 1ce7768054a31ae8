// Convolution as a matrix product on the tensor cores (mma.sync, sm_80 and up): rows are output channels,
// columns output positions; the input's halo lies in shared memory, already rounded and split, and every lane
// gathers its operands from there.
//
// Compiled by NVRTC after the prelude (KW_* dimensions, KNOB_* knobs), the tiling that the host derived
// (KW_ROW_PAD, ...), the epilogue's description (KW_EPILOGUE_*) and functions (kw_before, kw_between,
// kw_after), implicit_gemm_geometry.h, which says where everything lies, and matrix_operands.cuh.

namespace knobwise::implicit_gemm {

/// What is written: elements of the output, or sums of a part of the reduction.
#if KNOB_split_k > 1
using Result = float;
#else
using Result = Element;
#endif

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
                  KNOB_channels_per_block,
                  KNOB_warp_positions,
                  KNOB_warp_channels,
                  KNOB_input_channels_per_step,
                  KNOB_tiles_per_block,
                  KNOB_split_k,
                  KNOB_stages,
                  KNOB_producer_warps,
                  KNOB_store_width,
                  static_cast<int>(sizeof(Result)),
                  KW_NHWC,
                  KNOB_vector_width,
                  KW_WORD_ELEMENTS,
                  KW_SPLITS,
                  KW_GATHER_TAPS,
                  KW_TAPS_OUTERMOST,
                  KW_WEIGHTS_SHARED,
                  KW_CHANNELS_FIRST,
                  KW_EPILOGUE_REDUCE_DEPTH,
                  KW_ROW_PAD,
                  KW_PLANE_PAD};
}
static_assert(geometry().consistent(), "the knobs do not fit together");

constexpr int kThreads = geometry().threads(), kConsumers = geometry().consumers();
constexpr int kStagers = geometry().stagers();
constexpr int kSplits = KW_SPLITS, kVector = geometry().vector_elements(), kWidth = KNOB_vector_width;
constexpr int kBlockChannels = KNOB_channels_per_block;
constexpr int kRowTiles = KNOB_warp_channels / 16, kColumnTiles = geometry().column_tiles();  // of a warp
constexpr int kPositions = 2 * kColumnTiles, kChannels = 2 * kRowTiles;                        // of a lane
constexpr int kItemEntries = geometry().item_entries();
constexpr int kBuffers = geometry().input_buffers();
constexpr int kEntryBytes = geometry().entry_bytes();
constexpr int kGroupInputs = geometry().inputs_per_group(), kGroupOutputs = geometry().outputs_per_group();
constexpr long long kInPlane = 1LL * KW_D * KW_H * KW_W;
constexpr int kResultD = KW_EPILOGUE_REDUCE_DEPTH ? 1 : KW_OD;
constexpr long long kOutPlane = 1LL * kResultD * KW_OH * KW_OW;
/// Offsets within one sample (channels last) or one sample's group of channels (channels first).
using InOffset = OffsetType<(kInPlane * (KW_NHWC ? KW_C : kGroupInputs) >= (1LL << 31))>::type;
using OutOffset = OffsetType<(kOutPlane * (KW_NHWC ? KW_K : kGroupOutputs) >= (1LL << 31))>::type;

constexpr int kPaddedChannels = geometry().padded_channels();
/// Floats after the packed weights: bias, then the norm's scale and shift.
constexpr long long kPackedBias = geometry().packed_weight_bytes() / 4;
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
constexpr long long kPackedScale = kPackedBias + KW_BIAS * kPaddedChannels;
constexpr long long kPackedShift = kPackedScale + kPaddedChannels;
#endif

/// An entry: the two operands of every term, the largest term first.
struct Entry {
  unsigned words[2 * kSplits];
};

template <class Value>
__device__ __forceinline__ Entry make_entry(const Value (&values)[kVector]) {
  Entry entry;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Value a = values[i * KW_WORD_ELEMENTS];
    const Value b = KW_WORD_ELEMENTS == 2 ? values[i * KW_WORD_ELEMENTS + 1] : Value{0};
    entry.words[i] = pair_word(a, b);
    if constexpr (kSplits == 2)
      entry.words[2 + i] = pair_word(a - word_value<0>(entry.words[i]), b - word_value<1>(entry.words[i]));
  }
  return entry;
}

__device__ __forceinline__ Entry load_entry(const void* memory) {
  Entry entry;
  if constexpr (kSplits == 2) {
    const uint4 v = *static_cast<const uint4*>(memory);
    entry.words[0] = v.x, entry.words[1] = v.y, entry.words[2] = v.z, entry.words[3] = v.w;
  } else {
    const uint2 v = *static_cast<const uint2*>(memory);
    entry.words[0] = v.x, entry.words[1] = v.y;
  }
  return entry;
}

__device__ __forceinline__ void store_entry(void* memory, const Entry& entry) {
  if constexpr (kSplits == 2)
    *static_cast<uint4*>(memory) = make_uint4(entry.words[0], entry.words[1], entry.words[2], entry.words[3]);
  else
    *static_cast<uint2*>(memory) = make_uint2(entry.words[0], entry.words[1]);
}

// ---- Fetching input ----

/// What a thread fetches at once: entries that are neighbours along w.
struct Item {
  Staged values[kItemEntries][kVector];
};

constexpr int kRowItems = geometry().staged_w() / kItemEntries;
constexpr int kStepItems = geometry().planes() * geometry().staged_d() * geometry().staged_h() * kRowItems;
constexpr int kItems = ceil_div(kStepItems, kStagers);
/// Items that a thread has under way at once.
constexpr int kBatch = smaller(kItems, smaller(8, 1 + 63 / (kItemEntries * kVector)));

/// Where an item lies: plane, then d, h and the first entry along w.
struct ItemPlace {
  int plane, d, h, w;
  __device__ __forceinline__ int entry() const {
    constexpr Geometry g = geometry();
    return plane * g.plane_pitch() + d * g.depth_pitch() + h * g.row_pitch() + w;
  }
};

__device__ __forceinline__ ItemPlace item_place(int index) {
  constexpr Geometry g = geometry();
  // Channels last: neighbouring threads take neighbouring planes.
  const int plane_fast = g.planes() > 1 && KW_NHWC;
  const int plane = plane_fast ? index % g.planes() : index / (g.staged_d() * g.staged_h() * kRowItems);
  const int rest = plane_fast ? index / g.planes() : index % (g.staged_d() * g.staged_h() * kRowItems);
  const int row = rest / kRowItems;
  return {plane, row / g.staged_h(), row % g.staged_h(), rest % kRowItems * kItemEntries};
}

/// Reads an item; zeros where the input has no such element. `input` is the sample's first element of the
/// group's first channel.
__device__ __forceinline__ void fetch_item(Item& item, const Element* input, Triple tile, int first_channel,
                                           const ItemPlace& place) {
  constexpr Geometry g = geometry();
  const int d = (KW_EPILOGUE_REDUCE_DEPTH ? 0 : tile.d * KNOB_tile_d * KW_STRIDE_D) - KW_PAD_D + place.d;
  const int h = tile.h * KNOB_tile_h * KW_STRIDE_H - KW_PAD_H + place.h;
  const int w = tile.w * KNOB_tile_w * KW_STRIDE_W - KW_PAD_W - g.lead() + place.w * g.unit();
  const bool row_inside = static_cast<unsigned>(d) < KW_D && static_cast<unsigned>(h) < KW_H;
  const InOffset position = (static_cast<InOffset>(d) * KW_H + h) * KW_W + w;
#pragma unroll
  for (int i = 0; i < kItemEntries; ++i)
#pragma unroll
    for (int e = 0; e < kVector; ++e) item.values[i][e] = 0;
#if KW_GATHER_TAPS
  const int channel = first_channel + place.plane;
  if (!row_inside || channel >= kGroupInputs) return;
#pragma unroll
  for (int e = 0; e < kVector; e += kWidth) {
    if (static_cast<unsigned>(w + e) >= KW_W) continue;
    const InOffset offset = KW_NHWC ? (position + e) * KW_C + channel
                                    : channel * static_cast<InOffset>(kInPlane) + position + e;
    load_elements<kWidth>(&item.values[0][e], input + offset);
  }
#else
  const int channel = first_channel + place.plane * kVector;
  if (!row_inside || static_cast<unsigned>(w) >= KW_W) return;
  if (kGroupInputs % KNOB_input_channels_per_step != 0 && channel >= kGroupInputs) return;
  if constexpr (KW_NHWC) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const Element* source = input + ((position + i) * KW_C + channel);
      if constexpr (kGroupInputs % kVector == 0 && KW_C % kVector == 0) {
        load_elements<kVector>(item.values[i], source);
      } else {
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (channel + e < kGroupInputs) load_elements<1>(&item.values[i][e], source + e);
      }
    }
  } else {
    const Element* source = input + (static_cast<InOffset>(channel) * static_cast<InOffset>(kInPlane) + position);
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (kGroupInputs % kVector != 0 && channel + e >= kGroupInputs) continue;
      Staged row[kWidth];
      load_elements<kWidth>(row, source + e * kInPlane);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) item.values[i][e] = row[i];
    }
  }
#endif
}

__device__ __forceinline__ void deposit_item(unsigned char* buffer, const Item& item, const ItemPlace& place) {
#pragma unroll
  for (int i = 0; i < kItemEntries; ++i)
    store_entry(buffer + (place.entry() + i) * kEntryBytes, make_entry(item.values[i]));
}

/// One step of one tile: what to stage.
struct Step {
  Triple tile;
  int channel_step;
  bool first, last;  ///< Of its tile.
};

/// Steps that a block takes.
__device__ __forceinline__ int steps_of(const BlockOrigin& block) {
  constexpr Geometry g = geometry();
  if constexpr (KNOB_split_k > 1) return g.part_end(block.part) - g.part_begin(block.part);
  return g.block_tiles(block.first_tile) * g.channel_steps();
}

__device__ __forceinline__ Step step_at(const BlockOrigin& block, int index) {
  constexpr Geometry g = geometry();
  if constexpr (KNOB_split_k > 1)
    return {g.tile_at(block.first_tile), g.part_begin(block.part) + index, index == 0, index == steps_of(block) - 1};
  const int channel_step = index % g.channel_steps();
  return {g.tile_at(block.first_tile + index / g.channel_steps()), channel_step, channel_step == 0,
          channel_step == g.channel_steps() - 1};
}

/// Fetches, rounds and deposits the input of one step; `thread` of kStagers.
__device__ __forceinline__ void stage_input(unsigned char* buffer, const Element* input, const Step& step,
                                            int thread) {
#pragma unroll 1
  for (int first = 0; first < kItems; first += kBatch) {
    Item items[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if ((first + i) * kStagers + thread < kStepItems)
        fetch_item(items[i], input, step.tile, step.channel_step * KNOB_input_channels_per_step,
                   item_place((first + i) * kStagers + thread));
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if ((first + i) * kStagers + thread < kStepItems)
        deposit_item(buffer, items[i], item_place((first + i) * kStagers + thread));
  }
}

/// Starts the copies of the weights of one step.
__device__ __forceinline__ void stage_weights(unsigned char* buffer, const unsigned char* packed,
                                              int channel_step, int thread, int threads) {
  constexpr int kBytes = geometry().weight_step_bytes();
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(buffer));
  const unsigned char* source = packed + static_cast<long long>(channel_step) * kBytes;
#pragma unroll 4
  for (int offset = 16 * thread; offset < kBytes; offset += 16 * threads)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target + offset), "l"(source + offset));
}

__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// ---- Barriers of a part of the block ----

/// Barrier 0 is __syncthreads(); 1 the consumers'; then two for each buffer: full and empty.
constexpr int kConsumerBarrier = 1, kFullBarrier = 2, kEmptyBarrier = kFullBarrier + kBuffers;

__device__ __forceinline__ void barrier_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void consumer_barrier() {
  if constexpr (kThreads == kConsumers)
    __syncthreads();
  else
    barrier_sync(kConsumerBarrier, kConsumers);
}

// ---- Arithmetic ----

__device__ __forceinline__ void multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if KW_WORD_ELEMENTS == 1
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#elif KNOB_precision_bf16 || KNOB_precision_bf16x3
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
#endif
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// A lane's operands of one term of 16 channels.
struct Rows {
  unsigned words[4];
};

__device__ __forceinline__ Rows load_rows(const unsigned char* memory) {
  const uint4* source = reinterpret_cast<const uint4*>(memory);
  const uint4 v = KW_WEIGHTS_SHARED ? *source : __ldg(source);
  return {{v.x, v.y, v.z, v.w}};
}

/// Results of a warp's instructions.
using Sums = float[kRowTiles][kColumnTiles][4];

/// Adds the products of one step. `input` is the buffer; `columns` the byte offsets of the lane's columns;
/// `offsets` the lane's vectors, 4 apart; `weights` the lane's first.
__device__ __forceinline__ void multiply_step(Sums& sums, const unsigned char* input,
                                              const int (&columns)[kColumnTiles], const int* offsets,
                                              const unsigned char* weights) {
  constexpr Geometry g = geometry();
  constexpr int kUnroll = KNOB_unroll, kTermBytes = 512, kTileBytes = kSplits * kTermBytes;
#pragma unroll kUnroll
  for (int k = 0; k < g.k_steps(); ++k) {
    const unsigned char* base = input + offsets[4 * k];
    Entry inputs[kColumnTiles];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) inputs[n] = load_entry(base + columns[n]);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const unsigned char* source = weights + (k * (kBlockChannels / 16) + m) * kTileBytes;
      const Rows large = load_rows(source);
      if constexpr (kSplits == 2) {
        const Rows small = load_rows(source + kTermBytes);
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n)
          multiply(sums[m][n], small.words, inputs[n].words[0], inputs[n].words[1]);
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n)
          multiply(sums[m][n], large.words, inputs[n].words[2 * kSplits - 2], inputs[n].words[2 * kSplits - 1]);
      }
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n)
        multiply(sums[m][n], large.words, inputs[n].words[0], inputs[n].words[1]);
    }
  }
}

// ---- Epilogue ----

/// What a lane works on: it holds the results of kPositions positions and kChannels channels.
struct Place {
  BlockOrigin block;
  Triple tile;
  int position_warp, channel_warp, lane;

  /// Channel within the block.
  __device__ __forceinline__ int channel(int index) const {
    return geometry().result_channel(channel_warp, lane, index);
  }
  __device__ __forceinline__ int group_channel(int index) const {
    return block.channel_block * kBlockChannels + channel(index);
  }
  /// Index in the padded per-channel vectors of the packed parameters.
  __device__ __forceinline__ int padded_channel(int index) const {
    return (block.group * geometry().channel_blocks() + block.channel_block) * kBlockChannels + channel(index);
  }
  __device__ __forceinline__ bool channel_valid(int index) const {
    return kGroupOutputs % kBlockChannels == 0 || group_channel(index) < kGroupOutputs;
  }
  __device__ __forceinline__ int position(int index) const {
    return geometry().result_position(position_warp, lane, index);
  }
  __device__ __forceinline__ Triple output(int index) const {
    const Triple p = geometry().position_at(position(index));
    return {KW_EPILOGUE_REDUCE_DEPTH ? 0 : tile.d * KNOB_tile_d + p.d, tile.h * KNOB_tile_h + p.h,
            tile.w * KNOB_tile_w + p.w};
  }
  __device__ __forceinline__ bool valid(int index) const {
    constexpr int kCount = geometry().positions();
    const Triple p = output(index);
    return (kCount % KNOB_warp_positions == 0 || position(index) < kCount) &&
           (kResultD % KNOB_tile_d == 0 || p.d < kResultD) && (KW_OH % KNOB_tile_h == 0 || p.h < KW_OH) &&
           (KW_OW % KNOB_tile_w == 0 || p.w < KW_OW);
  }
};

/// A lane's results: [position][channel].
using Results = float[kPositions][kChannels];

/// Starts every sum from the bias.
__device__ __forceinline__ void start_sums(Sums& sums, const float* packed, const Place& place) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const float bias = KW_BIAS ? __ldg(packed + kPackedBias + place.padded_channel(c)) : 0.0f;
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) sums[c / 2][n][c % 2 * 2] = sums[c / 2][n][c % 2 * 2 + 1] = bias;
  }
}

/// Moves the sums to [position][channel].
__device__ __forceinline__ void take_sums(Results& results, const Sums& sums) {
#pragma unroll
  for (int p = 0; p < kPositions; ++p)
#pragma unroll
    for (int c = 0; c < kChannels; ++c) results[p][c] = kw_before(sums[c / 2][p / 2][c % 2 * 2 + p % 2], 0);
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
#endif

#if KW_EPILOGUE_SOFTMAX
/// Softmax over the channels: the 8 lanes with the same lane % 4 hold all channels of their positions.
__device__ __forceinline__ void softmax_channels(Results& results, const Place& place) {
#pragma unroll
  for (int p = 0; p < kPositions; ++p) {
    float highest = __int_as_float(0xff800000);
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (place.channel_valid(c)) highest = fmaxf(highest, results[p][c]);
    for (int step = 4; step <= 16; step *= 2)
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, step));
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      results[p][c] = expf(results[p][c] - highest);
      if (place.channel_valid(c)) sum += results[p][c];
    }
    for (int step = 4; step <= 16; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
#pragma unroll
    for (int c = 0; c < kChannels; ++c) results[p][c] = kw_after(results[p][c] / sum, 0);
  }
}
#endif

#if KW_EPILOGUE_NORM
constexpr int kNormChannels = KW_K / KW_NORM_GROUPS;
constexpr int kPositionWarps = geometry().position_warps();
/// Sums (x - centre)^power for power 1 or 2 of every channel over the valid positions of the cluster into
/// totals[channels_per_block]; `centre` is by the lane's channels. Ends with a barrier of the block.
template <int kPower>
__device__ __forceinline__ void channel_totals(const Results& results, const float (&centre)[kChannels],
                                               const Place& place, float* partial, float* mine,
                                               float* totals) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    float sum = 0;
#pragma unroll
    for (int p = 0; p < kPositions; ++p) {
      const float x = results[p][c] - centre[c];
      if (place.valid(p)) sum += kPower == 1 ? x : x * x;
    }
    for (int step = 1; step <= 2; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (place.lane % 4 == 0) partial[place.channel(c) * kPositionWarps + place.position_warp] = sum;
  }
  consumer_barrier();
  for (int channel = threadIdx.x; channel < kBlockChannels; channel += kConsumers) {
    float sum = 0;
    for (int warp = 0; warp < kPositionWarps; ++warp) sum += partial[channel * kPositionWarps + warp];
    mine[channel] = sum;
  }
  cluster_barrier<KW_CLUSTER>();
  for (int channel = threadIdx.x; channel < kBlockChannels; channel += kConsumers) {
    float sum = 0;
#pragma unroll
    for (int rank = 0; rank < KW_CLUSTER; ++rank) sum += cluster_load<KW_CLUSTER>(mine + channel, rank);
    totals[channel] = sum;
  }
  consumer_barrier();
}

/// Sum of the totals over the norm's group of each of the lane's channels.
__device__ __forceinline__ void group_totals(float (&sums)[kChannels], const float* totals,
                                             const Place& place) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    const int first = place.channel(c) / kNormChannels * kNormChannels;
    float sum = 0;
    for (int j = 0; j < kNormChannels; ++j) sum += totals[smaller(first + j, kBlockChannels - 1)];
    sums[c] = sum;
  }
}

/// Normalises in place: the cluster holds whole groups of the norm. `shared` has room for a partial sum of
/// every channel and warp of positions, and two figures of every channel.
__device__ __forceinline__ void normalise(Results& results, const float* packed, float* shared,
                                          const Place& place) {
  constexpr float kCount = static_cast<float>(1.0 * kNormChannels * kOutPlane);
  float *mine = shared + kBlockChannels * kPositionWarps, *totals = mine + kBlockChannels;
  float mean[kChannels], variance[kChannels];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) mean[c] = 0;
  channel_totals<1>(results, mean, place, shared, mine, totals);
  group_totals(mean, totals, place);
#pragma unroll
  for (int c = 0; c < kChannels; ++c) mean[c] /= kCount;
  // The others must have read `mine` before it is written again, and before this block ends.
  cluster_barrier<KW_CLUSTER>();
  channel_totals<2>(results, mean, place, shared, mine, totals);
  group_totals(variance, totals, place);
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    float scale = 1.0f / sqrtf(variance[c] / kCount + KW_NORM_EPS), shift = 0.0f;
#if KW_NORM_AFFINE
    scale *= __ldg(packed + kPackedScale + place.padded_channel(c));
    shift = __ldg(packed + kPackedShift + place.padded_channel(c));
#endif
#pragma unroll
    for (int p = 0; p < kPositions; ++p)
      results[p][c] = kw_between(fmaf(results[p][c] - mean[c], scale, shift), 0);
  }
  cluster_barrier<KW_CLUSTER>();
}
#endif

/// Where a position of the tile lies in the output's plane, and whether it does.
struct OutputPlace {
  OutOffset offset;
  bool inside;
};

__device__ __forceinline__ OutputPlace output_place(const Place& place, int in_warp) {
  constexpr Geometry g = geometry();
  const int position = place.position_warp * KNOB_warp_positions + in_warp;
  const Triple origin = {KW_EPILOGUE_REDUCE_DEPTH ? 0 : place.tile.d * KNOB_tile_d, place.tile.h * KNOB_tile_h,
                         place.tile.w * KNOB_tile_w};
  const OutOffset first = (static_cast<OutOffset>(origin.d) * KW_OH + origin.h) * KW_OW + origin.w;
  const bool in_tile = g.positions() % KNOB_warp_positions == 0 || position < g.positions();
  if constexpr (g.flat())
    return {first + position,
            in_tile && (KNOB_tile_d == 1 ? origin.h * KW_OW + position < KW_OH * KW_OW : first + position < kOutPlane)};
  const Triple at = g.position_at(position);
  return {first + (static_cast<OutOffset>(at.d) * KW_OH + at.h) * KW_OW + at.w,
          in_tile && (kResultD % KNOB_tile_d == 0 || origin.d + at.d < kResultD) &&
              (KW_OH % KNOB_tile_h == 0 || origin.h + at.h < KW_OH) &&
              (KW_OW % KNOB_tile_w == 0 || origin.w + at.w < KW_OW)};
}

/// Collects the results of 16 channels of the warp in `scratch`: rows of positions, or of channels (channels
/// last).
__device__ __forceinline__ void collect_results(Result* scratch, const Results& results, int m, int lane) {
  constexpr int kPitch = geometry().out_pitch();
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int channel = half * 8 + lane / 4, position = n * 8 + lane % 4 * 2;
      const float low = results[2 * n][2 * m + half], high = results[2 * n + 1][2 * m + half];
      if constexpr (KW_NHWC) {
        from_float(scratch[position * kPitch + channel], low);
        from_float(scratch[(position + 1) * kPitch + channel], high);
      } else {
        store_pair(scratch + channel * kPitch + position, low, high);
      }
    }
}

/// The output's element at the plane's first position of the warp's first channel.
__device__ __forceinline__ Result* warp_plane(Result* output, const Place& place) {
  const int first_channel = place.block.group * kGroupOutputs + place.block.channel_block * kBlockChannels +
                            place.channel_warp * KNOB_warp_channels;
  return output + (static_cast<long long>(place.block.part) * KW_N + place.block.sample) * KW_K * kOutPlane +
         static_cast<long long>(first_channel) * (KW_NHWC ? 1 : kOutPlane);
}

/// Channels of the group from the warp's first one on.
__device__ __forceinline__ int channels_from(const Place& place) {
  return kGroupOutputs - place.block.channel_block * kBlockChannels - place.channel_warp * KNOB_warp_channels;
}

/// Writes the results of the warp, 16 channels at a time, by way of `scratch` in shared memory, so that
/// neighbouring lanes write neighbours.
__device__ __forceinline__ void store_results(const Results& results, Result* output, const Element* residual,
                                              const Place& place, Result* scratch) {
  constexpr int kPitch = geometry().out_pitch(), kStore = KNOB_store_width;
  // Accesses that a row of the scratch memory takes, those of a lane to a row, and rows that the warp writes
  // at once.
  constexpr int kRowAccesses = (KW_NHWC ? 16 : KNOB_warp_positions) / kStore;
  constexpr int kLaneAccesses = kRowAccesses > 32 ? kRowAccesses / 32 : 1;
  constexpr int kRows = kRowAccesses < 32 ? 32 / kRowAccesses : 1, kAllRows = KW_NHWC ? KNOB_warp_positions : 16;
  const int lane_row = place.lane / kRowAccesses, lane_column = place.lane % kRowAccesses * kStore;
  Result* lane_output = warp_plane(output, place);
  const Result* lane_scratch = scratch + lane_row * kPitch + lane_column;
  const bool idle = kRows > kAllRows && lane_row >= kAllRows;
#if KW_NHWC
  lane_output += lane_column;
#else
  lane_output += static_cast<long long>(lane_row) * kOutPlane;
  OutputPlace places[kLaneAccesses];
#pragma unroll
  for (int j = 0; j < kLaneAccesses; ++j) places[j] = output_place(place, lane_column + 32 * j * kStore);
#endif
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    __syncwarp();
    collect_results(scratch, results, m, place.lane);
    __syncwarp();
    if (idle) continue;
    const int channels_left = channels_from(place) - m * 16;
    constexpr bool kRagged = kGroupOutputs % kBlockChannels != 0;
#if KW_NHWC
    if (kRagged && lane_column >= channels_left) continue;
#pragma unroll 4
    for (int row = 0; row < kAllRows; row += kRows) {
      const OutputPlace at = output_place(place, row + lane_row);
      if (at.inside)
        write_results<kStore>(lane_output + m * 16 + at.offset * KW_K, lane_scratch + row * kPitch, output, residual);
    }
#else
#pragma unroll
    for (int j = 0; j < kLaneAccesses; ++j) {
      if (!places[j].inside) continue;
      Result* target = lane_output + m * 16 * kOutPlane + places[j].offset;
#pragma unroll
      for (int row = 0; row < kAllRows; row += kRows)
        if (!kRagged || row + lane_row < channels_left)
          write_results<kStore>(target + row * kOutPlane, lane_scratch + row * kPitch + 32 * j * kStore, output, residual);
    }
#endif
  }
}

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
  constexpr int kTiles = kBlockChannels / 16;
  // A lane's operands: word 0 of channel lane / 4, then of the channel 8 further, then word 1 of both.
  for (long long index = first; index < g.packed_weight_bytes() / (16 * kSplits); index += step) {
    const int lane = static_cast<int>(index % 32);
    const int tile = static_cast<int>(index / 32 % kTiles);
    const int k_step = static_cast<int>(index / (32 * kTiles) % g.k_steps());
    const int stage = static_cast<int>(index / (32 * kTiles * g.k_steps()));
    const int channel_step = stage % g.channel_steps(), block = stage / g.channel_steps();
    const int v = 4 * k_step + lane % 4;
    Entry halves[2];
    for (int half = 0; half < 2; ++half) {
      const int channel = block % g.channel_blocks() * kBlockChannels + tile * 16 + half * 8 + lane / 4;
      Staged values[kVector];
      for (int e = 0; e < kVector; ++e) {
        const int in_step = g.element_channel(v, e);
        const int c = channel_step * KNOB_input_channels_per_step + in_step;
        const Triple tap = g.element_tap(v, e);
        const bool valid = v < g.vectors() && in_step < KNOB_input_channels_per_step && c < kGroupInputs &&
                           channel < kGroupOutputs && tap.w < KW_S;
        const long long row = static_cast<long long>(block / g.channel_blocks()) * kGroupOutputs + channel;
        values[e] = 0;
        if (valid)
          load_elements<1>(&values[e], weights + (((row * kGroupInputs + c) * KW_T + tap.d) * KW_R + tap.h) * KW_S + tap.w);
      }
      halves[half] = make_entry(values);
    }
    uint4* target = reinterpret_cast<uint4*>(packed) + index / 32 * 32 * kSplits + lane;
    for (int term = 0; term < kSplits; ++term)
      target[32 * term] = make_uint4(halves[0].words[2 * term], halves[1].words[2 * term],
                                     halves[0].words[2 * term + 1], halves[1].words[2 * term + 1]);
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
  const Element* group_input =
      input + static_cast<long long>(place.block.sample) * KW_C * kInPlane +
      static_cast<long long>(place.block.group * kGroupInputs) * (KW_NHWC ? 1 : kInPlane);
  const unsigned char* block_weights =
      reinterpret_cast<const unsigned char*>(packed) +
      static_cast<long long>(place.block.group * g.channel_blocks() + place.block.channel_block) *
          g.channel_steps() * g.weight_step_bytes();

  int* offsets = reinterpret_cast<int*>(shared);
  const int* lane_offsets = offsets + thread % 4;
  for (int v = thread; v < 4 * g.k_steps(); v += kThreads) offsets[v] = g.vector_offset(v) * kEntryBytes;
  int columns[kColumnTiles];
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    const int position = g.column_position(place.position_warp, n, place.lane / 4);
    columns[n] = g.position_entry(g.position_at(position < g.positions() ? position : 0)) * kEntryBytes;
  }
  const int lane_weights = place.channel_warp * kRowTiles * kSplits * 512 + place.lane * 16;
  const auto input_buffer = [&](int step) { return shared + g.input_begin() + step % kBuffers * g.input_bytes(); };
  const auto weight_buffer = [&](int step) {
    return shared + g.weights_begin() + (g.channel_steps() == 1 ? 0 : step % kBuffers * g.weight_step_bytes());
  };
  const auto stage_step = [&](int step, int stager) {
    const Step at = step_at(place.block, step);
    if (KW_WEIGHTS_SHARED && g.channel_steps() > 1)
      stage_weights(weight_buffer(step), block_weights, at.channel_step, stager, kStagers);
    stage_input(input_buffer(step), group_input, at, stager);
    await_copies();
  };

  if (KW_WEIGHTS_SHARED && g.channel_steps() == 1) {
    stage_weights(shared + g.weights_begin(), block_weights, 0, thread, kThreads);
    await_copies();
  }
  if constexpr (kThreads > kConsumers) {
    __syncthreads();
    if (thread >= kConsumers) {
#pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        if (step >= kBuffers) barrier_sync(kEmptyBarrier + step % kBuffers, kThreads);
        stage_step(step, thread - kConsumers);
        barrier_arrive(kFullBarrier + step % kBuffers, kThreads);
      }
      return;
    }
  }

  Sums sums;
#if KW_EPILOGUE_REDUCE_DEPTH
  Results folded;
#endif
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if constexpr (kThreads == kConsumers) {
      if (step > 0) __syncthreads();
      stage_step(step, thread);
      __syncthreads();
    } else {
      barrier_sync(kFullBarrier + step % kBuffers, kThreads);
    }
    const Step at = step_at(place.block, step);
    const unsigned char* weights =
        (KW_WEIGHTS_SHARED ? weight_buffer(step)
                           : block_weights + static_cast<long long>(at.channel_step) *
                                                 g.weight_step_bytes()) +
        lane_weights;
    Results results;
#if KW_EPILOGUE_REDUCE_DEPTH
#pragma unroll 1
    for (int depth = 0; depth < KW_OD; ++depth) {
      start_sums(sums, packed, place);
      multiply_step(sums, input_buffer(step) + depth * KW_STRIDE_D * g.depth_pitch() * kEntryBytes, columns,
                    lane_offsets, weights);
      take_sums(results, sums);
#pragma unroll
      for (int p = 0; p < kPositions; ++p)
#pragma unroll
        for (int c = 0; c < kChannels; ++c)
          folded[p][c] = depth == 0 ? results[p][c] : fold(folded[p][c], results[p][c]);
    }
#else
    if (at.first) start_sums(sums, packed, place);
    multiply_step(sums, input_buffer(step), columns, lane_offsets, weights);
#endif
    if (kThreads > kConsumers && step + kBuffers < steps)
      barrier_arrive(kEmptyBarrier + step % kBuffers, kThreads);
    if (!at.last) continue;
    place.tile = at.tile;
#if KW_EPILOGUE_REDUCE_DEPTH
#pragma unroll
    for (int p = 0; p < kPositions; ++p)
#pragma unroll
      for (int c = 0; c < kChannels; ++c)
        results[p][c] = kw_between(KW_EPILOGUE_MEAN ? folded[p][c] / KW_OD : folded[p][c], 0);
#else
    take_sums(results, sums);
#endif
#if KW_EPILOGUE_SOFTMAX
    softmax_channels(results, place);
#elif KW_EPILOGUE_NORM
    normalise(results, packed, reinterpret_cast<float*>(shared + g.norm_begin()), place);
#endif
    store_results(results, output, residual, place,
                  reinterpret_cast<Result*>(shared + g.epilogue_begin() + warp * g.out_bytes()));
  }
}
