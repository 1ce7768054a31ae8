// Convolution as a matrix product on Hopper's warpgroup instructions: one warpgroup stages the input, rounded
// and split, and has the copy engine bring the weights, and the input too where it lies in memory as it is
// multiplied; the others multiply from shared memory.
//
// Compiled by NVRTC for sm_90a after the prelude (KW_* dimensions, KNOB_* knobs), the tiling that the host
// derived, the epilogue's functions (kw_before, kw_between), matrix_operands.cuh, the instruction's wrapper
// (kw_multiply) and implicit_gemm_sm90_geometry.h, which says where everything lies.

namespace knobwise::implicit_gemm_sm90 {

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
                  KNOB_tile_h,
                  KNOB_tile_w,
                  KNOB_channels_per_block,
                  KNOB_column_groups,
                  KNOB_input_channels_per_step,
                  KNOB_stages,
                  KNOB_tiles_per_block,
                  KW_CHUNK_ELEMENTS,
                  KW_TERMS,
                  KW_CHANNELS_FIRST,
                  static_cast<int>(sizeof(Element)),
                  KW_NHWC,
                  KW_COPIED};
}
static_assert(geometry().consistent(), "the knobs do not fit together");

constexpr int kColumns = geometry().columns(), kStages = KNOB_stages, kTerms = KW_TERMS;
constexpr int kBlockChannels = KNOB_channels_per_block, kChunk = KW_CHUNK_ELEMENTS;
constexpr int kFetch = geometry().fetch_width();
constexpr int kConsumers = geometry().consumers(), kThreads = geometry().threads();
constexpr int kGroupInputs = geometry().inputs_per_group(), kGroupOutputs = geometry().outputs_per_group();
constexpr long long kInPlane = 1LL * KW_D * KW_H * KW_W, kOutPlane = 1LL * KW_OD * KW_OH * KW_OW;
using InOffset = OffsetType<(kInPlane * (KW_NHWC ? KW_C : kGroupInputs) >= (1LL << 31))>::type;
using OutOffset = OffsetType<(kOutPlane * (KW_NHWC ? KW_K : kGroupOutputs) >= (1LL << 31))>::type;
/// Floats after the packed weights: bias, then the norm's scale and shift.
constexpr long long kPackedBias = geometry().packed_weight_bytes() / 4;
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
constexpr long long kPackedScale = kPackedBias + KW_BIAS * geometry().padded_channels();
constexpr long long kPackedShift = kPackedScale + geometry().padded_channels();
#endif

// ---- Barriers of the pipeline ----

/// Arrives, and has the phase wait for that many bytes of the copy engine too.
__device__ __forceinline__ void barrier_expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Queues a copy of weights to shared memory.
__device__ __forceinline__ void copy_weights(unsigned target, const unsigned char* weights, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target),
               "l"(weights), "r"(geometry().weight_bytes()), "r"(barrier)
               : "memory");
}

// ---- The producers, where the copy engine brings the input ----
#if KW_COPIED
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

/// Queues the copies of a unit's input: the box of the map once or more at each plane.
__device__ __forceinline__ void copy_input(unsigned target, const TensorMap& map, const BlockOrigin& block, Triple tile,
                                           int unit, unsigned barrier) {
  constexpr Geometry g = geometry();
  const int d = tile.d * KW_STRIDE_D - KW_PAD_D + g.unit_t(unit) * KW_DILATION_D;
  const int h = tile.h * KNOB_tile_h * KW_STRIDE_H - KW_PAD_H + g.unit_r(unit) * KW_DILATION_H;
  const int w = tile.w * KNOB_tile_w - KW_PAD_W;
  const int channel = block.group * kGroupInputs + g.unit_step(unit) * KNOB_input_channels_per_step;
#pragma unroll
  for (int copy = 0; copy < g.planes() * g.copies(); ++copy) {
    const int plane = copy / g.copies(), column = copy % g.copies() * g.copied_width();
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
        "%6}], [%7];" ::"r"(target + (plane * g.plane_pitch() + column) * 16),
        "l"(&map), "r"(channel + plane * kChunk), "r"(w + column), "r"(h), "r"(d), "r"(block.sample), "r"(barrier)
        : "memory");
  }
}
#else

// ---- The producers ----

/// A chunk of channels at kFetch neighbouring input positions.
struct Item {
  static constexpr int kAccess = smaller(16 / static_cast<int>(sizeof(Element)), kChunk);
  /// Neighbours that one load fetches: along w, or along the channels.
  static constexpr int kRun = !KW_NHWC ? kFetch : KW_C % kAccess == 0 && kGroupInputs % kAccess == 0 ? kAccess : 1;
  Neighbours<kRun> runs[kChunk * kFetch / kRun];

  /// Element e of the chunk.
  __device__ __forceinline__ Element element(int position, int e) const {
    return KW_NHWC ? runs[e / kRun].element(e % kRun) : runs[e].element(position);
  }
};

/// Where an item lies in a unit: plane, row, first column. Channels last, neighbouring threads take neighbouring
/// planes.
struct ItemPlace {
  int plane, row, column;
};

constexpr int kRowItems = geometry().row_pitch() / kFetch;
constexpr int kUnitItems = geometry().planes() * KNOB_tile_h * kRowItems, kItems = ceil_div(kUnitItems, 128);
/// Items that a thread has under way at once: as many as its registers hold, in rounds of equal size.
constexpr int kMostItems = KW_STAGED_WORDS / (static_cast<int>(sizeof(Item)) / 4);
constexpr int kBatch = ceil_div(kItems, ceil_div(kItems, kMostItems));
/// Elements lie in memory as they are multiplied.
constexpr bool kDirect = (KW_DTYPE_F16 && KW_IS_FP16 || KW_DTYPE_BF16 && KW_IS_BF16) && kTerms == 1;

__device__ __forceinline__ ItemPlace item_place(int index) {
  constexpr Geometry g = geometry();
  constexpr int kPlaneItems = KNOB_tile_h * kRowItems;
  const int plane = KW_NHWC ? index % g.planes() : index / kPlaneItems;
  const int in_plane = KW_NHWC ? index / g.planes() : index % kPlaneItems;
  return {plane, in_plane / kRowItems, in_plane % kRowItems * kFetch};
}

/// Reads item `index` of a unit; zeros where the input has no such element. `input` is the sample's first
/// element of the group's first channel.
__device__ __forceinline__ void fetch_item(Item& item, const Element* input, Triple tile, int unit, int index) {
  constexpr Geometry g = geometry();
  const auto [plane, row, column] = item_place(index);
  const int d = tile.d * KW_STRIDE_D - KW_PAD_D + g.unit_t(unit) * KW_DILATION_D;
  const int h = (tile.h * KNOB_tile_h + row) * KW_STRIDE_H - KW_PAD_H + g.unit_r(unit) * KW_DILATION_H;
  const int w = tile.w * KNOB_tile_w - KW_PAD_W - g.lead() + column;
  const int channel = g.unit_step(unit) * KNOB_input_channels_per_step + plane * kChunk;
  const bool inside = index < kUnitItems && static_cast<unsigned>(d) < KW_D && static_cast<unsigned>(h) < KW_H &&
                      static_cast<unsigned>(w) < KW_W;
  const InOffset position = (static_cast<InOffset>(d) * KW_H + h) * KW_W + w;
  const Element* source = input + (KW_NHWC ? position * KW_C + channel
                                           : static_cast<InOffset>(channel) * static_cast<InOffset>(kInPlane) + position);
  constexpr bool kWhole = kGroupInputs % KNOB_input_channels_per_step == 0 && KNOB_input_channels_per_step % kChunk == 0;
#pragma unroll
  for (int e = 0; e < kChunk; e += KW_NHWC ? Item::kRun : 1)
    item.runs[KW_NHWC ? e / Item::kRun : e].load(source + e * (KW_NHWC ? 1LL : kInPlane),
                                                 inside && (kWhole || channel + e < kGroupInputs));
}

/// The operands of one position: words [term][4].
__device__ __forceinline__ void make_words(unsigned (&words)[kTerms][4], const Item& item, int position) {
  constexpr int kPerWord = kChunk / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if !KW_DTYPE_F32
    if constexpr (kDirect) {
      words[0][i] = item.element(position, 2 * i) | static_cast<unsigned>(item.element(position, 2 * i + 1)) << 16;
      continue;
    }
#endif
    const float a = to_float(item.element(position, i * kPerWord));
    const float b = kPerWord == 2 ? to_float(item.element(position, i * kPerWord + kPerWord - 1)) : 0.0f;
    words[0][i] = round_word(a, b);
    if constexpr (kTerms == 2)
      words[kTerms - 1][i] = round_word(a - word_value<0>(words[0][i]), b - word_value<1>(words[0][i]));
  }
}

__device__ __forceinline__ void deposit_item(unsigned char* buffer, const Item& item, int index) {
  constexpr Geometry g = geometry();
  const auto [plane, row, column] = item_place(index);
  unsigned char* target = buffer + (plane * g.plane_pitch() + row * g.row_pitch() + column) * 16;
  unsigned words[kFetch][kTerms][4];
#pragma unroll
  for (int i = 0; i < kFetch; ++i) make_words(words[i], item, i);
  // Half of the lanes write their second entry first: no two lanes of a quarter-warp meet in a bank.
  const bool swap = kFetch == 2 && (threadIdx.x & 4) != 0;
#pragma unroll
  for (int term = 0; term < kTerms; ++term)
#pragma unroll
    for (int i = 0; i < kFetch; ++i) {
      const unsigned(&mine)[4] = words[i][term];
      const unsigned(&other)[4] = words[kFetch - 1 - i][term];
      *reinterpret_cast<uint4*>(target + (term * g.planes() * g.plane_pitch() + (swap ? 1 - i : i)) * 16) =
          make_uint4(swap ? other[0] : mine[0], swap ? other[1] : mine[1], swap ? other[2] : mine[2],
                     swap ? other[3] : mine[3]);
    }
}

__device__ __forceinline__ void stage_input(unsigned char* buffer, const Element* input, Triple tile, int unit,
                                            int thread) {
#pragma unroll 1
  for (int first = 0; first < kItems; first += kBatch) {
    Item items[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      fetch_item(items[i], input, tile, unit, (first + i) * 128 + thread);
#pragma unroll
    for (int i = 0; i < kBatch; ++i)
      if ((first + i) * 128 + thread < kUnitItems) deposit_item(buffer, items[i], (first + i) * 128 + thread);
  }
}

#endif

// ---- The consumers ----

using Sums = float[kColumns / 2];

/// Queues the products of one unit.
__device__ __forceinline__ void multiply_unit(Sums& sums, unsigned weights, unsigned input) {
  constexpr Geometry g = geometry();
  constexpr int kStepBytes = 2 * kBlockChannels * 16;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < g.k_steps(); ++k) {
    const int first = g.chunk_entry(2 * k), second = g.chunk_entry(2 * k + 1);
#pragma unroll
    for (int product = kTerms == 2 ? 0 : 2; product < 3; ++product) {
      const int a = product == 0, b = product == 1;  // the small terms first
      kw_multiply(sums, describe(weights + (a * g.k_steps() + k) * kStepBytes, kBlockChannels * 16),
                  describe(input + (b * g.planes() * g.plane_pitch() + first) * 16, (second - first) * 16));
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void await_products(Sums& sums) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  // The sums are the instructions' until here.
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

/// A thread's columns are columns 2 * (lane % 4) and the next of every 8, of the channels lane / 4 and 8
/// further of its warp's 16.
struct Place {
  BlockOrigin block;
  Triple tile;
  int first_channel;  ///< Of the warp, within the block.
  int group;          ///< Of the columns.
  int lane;

  __device__ __forceinline__ int channel(int half) const { return first_channel + half * 8 + lane / 4; }
  __device__ __forceinline__ bool inside(int column) const {
    constexpr Geometry g = geometry();
    constexpr bool kOneRow = KNOB_tile_h == 1;
    const int row = kOneRow ? 0 : column / g.row_pitch(), w = column - row * g.row_pitch() + group * kColumns;
    return (kOneRow && kColumns * KNOB_column_groups == KNOB_tile_w || w < KNOB_tile_w && row < KNOB_tile_h) &&
           (kColumns % g.out_columns() == 0 || column < kColumns) &&
           (KW_OH % KNOB_tile_h == 0 || tile.h * KNOB_tile_h + row < KW_OH) &&
           (KW_OW % KNOB_tile_w == 0 || tile.w * KNOB_tile_w + w < KW_OW);
  }
};

#if KW_EPILOGUE_NORM
constexpr int kNormChannels = KW_K / KW_NORM_GROUPS;

__device__ __forceinline__ void consumer_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

/// Positions of a group of the tile's columns that lie in the output.
__device__ __forceinline__ float group_count(Triple tile, int group) {
  constexpr int kWidth = KNOB_tile_w / KNOB_column_groups;
  const int width = smaller(kWidth, KW_OW - tile.w * KNOB_tile_w - group * kWidth);
  return static_cast<float>(smaller(KNOB_tile_h, KW_OH - tile.h * KNOB_tile_h) * (width > 0 ? width : 0));
}

/// For the thread's two channels, the mean and the sum of squared deviations over the positions of its
/// group.
__device__ __forceinline__ void channel_statistics(float (&mean)[2], float (&squares)[2], const Sums& values,
                                                   const Place& place) {
  const float count = group_count(place.tile, place.group);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < kColumns / 4; ++j) {
      const float x = values[4 * (j / 2) + 2 * half + j % 2];
      sum += place.inside(8 * (j / 2) + place.lane % 4 * 2 + j % 2) ? x : 0.0f;
    }
    for (int step = 1; step <= 2; step *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    mean[half] = count > 0 ? sum / count : 0.0f;
#pragma unroll
    for (int j = 0; j < kColumns / 4; ++j) {
      const float x = values[4 * (j / 2) + 2 * half + j % 2] - mean[half];
      square += place.inside(8 * (j / 2) + place.lane % 4 * 2 + j % 2) ? x * x : 0.0f;
    }
    for (int step = 1; step <= 2; step *= 2) square += __shfl_xor_sync(0xffffffffu, square, step);
    squares[half] = square;
  }
}

struct Statistics {
  float count, mean, squares;
};

/// Joins the statistics of two disjoint sets (Chan, Golub and LeVeque's pairwise update).
__device__ __forceinline__ Statistics join(const Statistics& a, const Statistics& b) {
  const float count = a.count + b.count, delta = b.mean - a.mean, share = count > 0 ? b.count / count : 0.0f;
  return {count, fmaf(delta, share, a.mean), a.squares + b.squares + delta * delta * a.count * share};
}

/// Normalises in place: the cluster holds whole groups of the norm. `shared` has room for two figures of every
/// channel of the block, of each group's positions, then of the sample's.
__device__ __forceinline__ void normalise(Sums& values, const float* packed, const Place& place, float* shared) {
  constexpr Geometry g = geometry();
  constexpr int kGroups = KNOB_column_groups;
  float *mine = shared + 2 * kBlockChannels * place.group, *sample = shared + 2 * kBlockChannels * kGroups;
  float mean[2], squares[2];
  channel_statistics(mean, squares, values, place);
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (place.lane % 4 == 0)
      mine[place.channel(half)] = mean[half], mine[kBlockChannels + place.channel(half)] = squares[half];
  consumer_barrier();
  cluster_barrier<KW_CLUSTER>();
  for (int channel = threadIdx.x; channel < kBlockChannels; channel += kConsumers) {
    Statistics parts[KW_CLUSTER * kGroups];
#pragma unroll
    for (int i = 0; i < KW_CLUSTER * kGroups; ++i) {
      const float* figure = shared + 2 * kBlockChannels * (i % kGroups) + channel;
      parts[i] = {group_count(g.tile_at(i / kGroups), i % kGroups), cluster_load<KW_CLUSTER>(figure, i / kGroups),
                  cluster_load<KW_CLUSTER>(figure + kBlockChannels, i / kGroups)};
    }
#pragma unroll
    for (int i = 1; i < KW_CLUSTER * kGroups; ++i) parts[0] = join(parts[0], parts[i]);
    sample[channel] = parts[0].mean, sample[kBlockChannels + channel] = parts[0].squares;
  }
  consumer_barrier();
  float variance[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int first = place.channel(half) / kNormChannels * kNormChannels;
    const auto channel = [&](int i) {
      const int c = smaller(first + i, kBlockChannels - 1);
      return Statistics{static_cast<float>(kOutPlane), sample[c], sample[kBlockChannels + c]};
    };
    Statistics group = channel(0);
    for (int i = 1; i < kNormChannels; ++i) group = join(group, channel(i));
    mean[half] = group.mean, variance[half] = group.squares;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float scale = 1.0f / sqrtf(variance[half] / static_cast<float>(1.0 * kNormChannels * kOutPlane) + KW_NORM_EPS), shift = 0.0f;
#if KW_NORM_AFFINE
    const int channel = (place.block.group * geometry().channel_blocks() + place.block.channel_block) * kBlockChannels +
                        place.channel(half);
    scale *= __ldg(packed + kPackedScale + channel);
    shift = __ldg(packed + kPackedShift + channel);
#endif
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& x = values[4 * j + 2 * half + i];
        x = kw_between(fmaf(x - mean[half], scale, shift), 0);
      }
  }
}
#endif

#if KW_NHWC && !KW_DTYPE_F32
/// A position's 16 channels of a warp are two runs of 16 bytes in memory.
constexpr bool kRunsOfChannels = KW_K % 8 == 0 && kGroupOutputs % 8 == 0;

/// Byte, in the scratch memory of store_runs(), of a run of 8 channels. Runs take turns, so that no two lanes of an
/// access meet in a bank.
__device__ __forceinline__ int run_offset(int column, int run) {
  return column * 32 + (run ^ (column >> 2 & 1)) * 16;
}

/// Writes the results of kCount columns from kBegin on, of the warp's 16 channels. Matrices of 8 channels and 8 columns
/// are transposed on their way to `scratch`. `offset_of` gives the elements from `warp_output` to a column's position.
template <int kBegin, int kCount, class OffsetOf>
__device__ __forceinline__ void store_runs(const Sums& sums, Element* warp_output, const OffsetOf& offset_of,
                                           int channels_left, const Place& place, Element* scratch, const Element* output,
                                           const Element* residual) {
  unsigned char* bytes = reinterpret_cast<unsigned char*>(scratch);
  __syncwarp();
#pragma unroll
  for (int first = 0; first < kCount; first += 8) {
    unsigned words[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = (kBegin + first) / 2 + 2 * half;
      words[half] = pack_pair(sums[index], sums[index + 1]);
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                     shared_address(bytes + run_offset(first + place.lane % 8, place.lane / 8 % 2))),
                 "r"(words[0]), "r"(words[1])
                 : "memory");
  }
  __syncwarp();
  const int run = place.lane % 2;
#pragma unroll
  for (int first = 0; first < kCount; first += 16) {
    const int column = first + place.lane / 2;
    if ((kCount % 16 == 0 || column < kCount) && (kGroupOutputs % kBlockChannels == 0 || run * 8 < channels_left) &&
        place.inside(kBegin + column))
      write_results<8>(warp_output + offset_of(kBegin + column) * KW_K + run * 8,
                       reinterpret_cast<const Element*>(bytes + run_offset(column, run)), output, residual);
  }
}
#else
constexpr bool kRunsOfChannels = false;
#endif

/// Writes the warp's 16 channels of as many columns from kBegin on as `scratch` in shared memory holds, by way of
/// which neighbouring lanes write neighbours.
template <int kBegin>
__device__ __forceinline__ void store_columns(const Sums& sums, Element* output, const Element* residual,
                                           const Place& place, Element* scratch) {
  constexpr Geometry g = geometry();
  constexpr int kStore = g.store_width(), kPitch = g.out_pitch(), kOut = g.out_columns();
  // Accesses that a channel takes, those of a lane to a channel, and channels that the warp writes at once.
  constexpr int kRowAccesses = KW_NHWC ? 16 : kOut / kStore, kLaneAccesses = ceil_div(kRowAccesses, 32);
  constexpr int kRows = kRowAccesses < 32 ? 32 / kRowAccesses : 1, kCount = smaller(kOut, kColumns - kBegin);
  const int lane = place.lane, first_channel = place.block.channel_block * kBlockChannels + place.first_channel;
  const int lane_row = lane / kRowAccesses, lane_column = lane % kRowAccesses * kStore;
  const Triple tile = place.tile;
  const OutOffset origin =
      (static_cast<OutOffset>(tile.d) * KW_OH + tile.h * KNOB_tile_h) * KW_OW + tile.w * KNOB_tile_w;
  Element* warp_output =
      output + static_cast<long long>(place.block.sample) * KW_K * kOutPlane +
      static_cast<long long>(place.block.group * kGroupOutputs + first_channel) * (KW_NHWC ? 1 : kOutPlane);
  const int channels_left = kGroupOutputs - first_channel;
  constexpr bool kRagged = kGroupOutputs % kBlockChannels != 0;
  const auto offset_of = [&](int column) {
    const int row = KNOB_tile_h == 1 ? 0 : column / g.row_pitch();
    return origin + static_cast<OutOffset>(row) * KW_OW + column - row * g.row_pitch() + place.group * kColumns;
  };
#if KW_NHWC && !KW_DTYPE_F32
  if constexpr (kRunsOfChannels) {
    store_runs<kBegin, kCount>(sums, warp_output, offset_of, channels_left, place, scratch, output, residual);
    return;
  }
#endif
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kCount / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int index = kBegin / 2 + 4 * j + 2 * half;
      store_pair(scratch + (half * 8 + lane / 4) * kPitch + j * 8 + lane % 4 * 2, sums[index], sums[index + 1]);
    }
  __syncwarp();
  if (lane_row >= kRows) return;  // lanes that a row's accesses leave over
#if KW_NHWC
  if (kRagged && lane_column >= channels_left) return;
#pragma unroll 4
  for (int row = 0; row < kCount; row += kRows) {
    const int in_chunk = row + lane_row;
    if ((kCount % kRows == 0 || in_chunk < kCount) && place.inside(kBegin + in_chunk))
      write_results<1>(warp_output + offset_of(kBegin + in_chunk) * KW_K + lane_column,
                       scratch + lane_column * kPitch + in_chunk, output, residual);
  }
#else
  constexpr bool kSomeIdle = kCount < kOut || (kRowAccesses > 32 && kRowAccesses % 32 != 0);
#pragma unroll
  for (int j = 0; j < kLaneAccesses; ++j) {
    const int in_chunk = lane_column + 32 * j * kStore, column = kBegin + in_chunk;
    if ((kSomeIdle && in_chunk >= kCount) || !place.inside(column)) continue;
    Element* target = warp_output + static_cast<long long>(lane_row) * kOutPlane + offset_of(column);
#pragma unroll
    for (int row = 0; row < 16; row += kRows)
      if ((16 % kRows == 0 || row + lane_row < 16) && (!kRagged || row + lane_row < channels_left))
        write_results<kStore>(target + row * kOutPlane, scratch + (row + lane_row) * kPitch + in_chunk, output,
                              residual);
  }
#endif
}

/// Writes the warp's 16 channels. Its columns are counted by the template, so that registers are indexed by constants
/// whatever the compiler unrolls.
template <int kBegin = 0>
__device__ __forceinline__ void store_sums(const Sums& sums, Element* output, const Element* residual,
                                           const Place& place, Element* scratch) {
  store_columns<kBegin>(sums, output, residual, place, scratch);
  constexpr int kNext = kBegin + geometry().out_columns();
  if constexpr (kNext < kColumns) store_sums<kNext>(sums, output, residual, place, scratch);
}

}  // namespace knobwise::implicit_gemm_sm90

/// Packs weights (rounded and split) and bias, zeros where a tile reaches past the last channel or tap.
extern "C" __global__ void implicit_gemm_sm90_pack(const knobwise::Element* weights,
#if KW_BIAS
                                                   const knobwise::Element* bias,
#endif
#if KW_EPILOGUE_NORM && KW_NORM_AFFINE
                                                   const knobwise::Element* scale, const knobwise::Element* shift,
#endif
                                                   float* packed) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm_sm90;
  constexpr Geometry g = geometry();
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  constexpr int kUnitRows = g.k_steps() * 2 * kBlockChannels, kPerWord = kChunk / 4;
  for (long long index = first; index < g.packed_weight_bytes() / (16 * kTerms); index += step) {
    const int in_block = static_cast<int>(index % kBlockChannels);
    const int chunk = static_cast<int>(index / kBlockChannels % (2 * g.k_steps()));
    const long long stage = index / kUnitRows;
    const int unit = static_cast<int>(stage % g.units()), block = static_cast<int>(stage / g.units());
    const int channel = block % g.channel_blocks() * kBlockChannels + in_block;
    const long long row = static_cast<long long>(block / g.channel_blocks()) * kGroupOutputs + channel;
    float values[kChunk];
    for (int e = 0; e < kChunk; ++e) {
      const int in_step = g.chunk_plane(chunk) * kChunk + e;
      const int c = g.unit_step(unit) * KNOB_input_channels_per_step + in_step;
      const bool valid = chunk < g.chunks() && in_step < KNOB_input_channels_per_step && c < kGroupInputs &&
                         channel < kGroupOutputs;
      values[e] = valid ? to_float(weights[(((row * kGroupInputs + c) * KW_T + g.unit_t(unit)) * KW_R +
                                            g.unit_r(unit)) * KW_S + g.chunk_tap(chunk)])
                        : 0.0f;
    }
    unsigned words[2][4];
    for (int i = 0; i < 4; ++i) {
      const float a = values[i * kPerWord], b = kPerWord == 2 ? values[i * kPerWord + kPerWord - 1] : 0.0f;
      words[0][i] = round_word(a, b);
      words[1][i] = round_word(a - word_value<0>(words[0][i]), b - word_value<1>(words[0][i]));
    }
    uint4* target = reinterpret_cast<uint4*>(packed) + stage * kTerms * kUnitRows + index % kUnitRows;
    for (int term = 0; term < kTerms; ++term)
      target[term * kUnitRows] = make_uint4(words[term][0], words[term][1], words[term][2], words[term][3]);
  }
  for (long long index = first; index < g.padded_channels(); index += step) {
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
#if KW_CLUSTER > 1
__cluster_dims__(KW_CLUSTER, 1, 1)
#endif
    __launch_bounds__(knobwise::implicit_gemm_sm90::kThreads, KNOB_min_blocks)
    implicit_gemm_sm90(
#if KW_COPIED
        const __grid_constant__ knobwise::implicit_gemm_sm90::TensorMap input,
#else
        const knobwise::Element* __restrict__ input,
#endif
        const float* __restrict__ packed,
                       knobwise::Element* __restrict__ output, const knobwise::Element* __restrict__ residual) {
  using namespace knobwise;
  using namespace knobwise::implicit_gemm_sm90;
  constexpr Geometry g = geometry();
  extern __shared__ __align__(128) unsigned char shared[];

  const int thread = static_cast<int>(threadIdx.x);
  const unsigned full = shared_address(shared), empty = full + 8 * kStages;
  const auto stage_buffer = [&](int stage) { return shared + g.stages_begin() + stage * g.stage_bytes(); };
  const BlockOrigin block = g.origin(blockIdx.x);
  const int tiles = g.block_tiles(block.first_tile), all_units = tiles * g.units();
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(full + 8 * stage, KW_COPIED ? 1 : 128 + 1);
      barrier_init(empty + 8 * stage, kConsumers / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (thread >= kConsumers) {
#if KW_PRODUCER_REGISTERS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(KW_PRODUCER_REGISTERS));
#endif
    const int producer = thread - kConsumers;
    const unsigned char* weights =
        reinterpret_cast<const unsigned char*>(packed) +
        static_cast<long long>(block.group * g.channel_blocks() + block.channel_block) * g.units() * g.weight_bytes();
#if KW_COPIED
    if (producer != 0) return;
#else
    const Element* group_input = input + static_cast<long long>(block.sample) * KW_C * kInPlane +
                                 static_cast<long long>(block.group * kGroupInputs) * (KW_NHWC ? 1 : kInPlane);
#endif
    int stage = 0;
    unsigned parity = 1;
#pragma unroll 1
    for (int index = 0; index < all_units; ++index) {
      const int unit = index % g.units();
      const Triple tile = g.tile_at(block.first_tile + index / g.units());
      const unsigned buffer = shared_address(stage_buffer(stage)), ready = full + 8 * stage;
      barrier_wait(empty + 8 * stage, parity);
      if (producer == 0) {
        barrier_expect(ready, g.weight_bytes() + KW_COPIED * g.copied_bytes());
        copy_weights(buffer, weights + static_cast<long long>(unit) * g.weight_bytes(), ready);
      }
#if KW_COPIED
      copy_input(buffer + g.weight_bytes(), input, block, tile, unit, ready);
#else
      stage_input(stage_buffer(stage) + g.weight_bytes(), group_input, tile, unit, producer);
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      barrier_arrive(ready);
#endif
      if (++stage == kStages) stage = 0, parity ^= 1;
    }
  } else {
#if KW_CONSUMER_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(KW_CONSUMER_REGISTERS));
#endif
    const int lane = thread % 32, warp = thread / 32, warpgroup = thread / 128;
    const int channel_group = warpgroup % g.channel_groups(), column_group = warpgroup / g.channel_groups();
    const int in_block = channel_group * 64 + warp % 4 * 16;
    Element* scratch = reinterpret_cast<Element*>(shared + g.output_begin() + warp * g.out_bytes());
    const float* bias = packed + kPackedBias + (block.group * g.channel_blocks() + block.channel_block) * kBlockChannels +
                        in_block + lane / 4;
    int stage = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      Sums sums;
      const float low = KW_BIAS ? __ldg(bias) : 0.0f, high = KW_BIAS ? __ldg(bias + 8) : 0.0f;
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
        sums[4 * j] = sums[4 * j + 1] = low, sums[4 * j + 2] = sums[4 * j + 3] = high;
      int previous = -1;
#pragma unroll 1
      for (int unit = 0; unit < g.units(); ++unit) {
        barrier_wait(full + 8 * stage, parity);
        const unsigned buffer = shared_address(stage_buffer(stage));
        multiply_unit(sums, buffer + channel_group * 64 * 16,
                      buffer + g.weight_bytes() + column_group * kColumns * 16);
        if (previous >= 0) {
          await_products<1>(sums);
          if (lane == 0) barrier_arrive(empty + 8 * previous);
        }
        previous = stage;
        if (++stage == kStages) stage = 0, parity ^= 1;
      }
      await_products<0>(sums);
      if (lane == 0) barrier_arrive(empty + 8 * previous);
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[i] = kw_before(sums[i], 0);
      const Place place{block, g.tile_at(block.first_tile + tile), in_block, column_group, lane};
#if KW_EPILOGUE_NORM
      normalise(sums, packed, place, reinterpret_cast<float*>(shared + g.norm_begin()));
#endif
      store_sums(sums, output, residual, place, scratch);
#if KW_EPILOGUE_NORM
      // The others have read this block's figures before it ends.
      cluster_barrier<KW_CLUSTER>();
#endif
    }
  }
}
