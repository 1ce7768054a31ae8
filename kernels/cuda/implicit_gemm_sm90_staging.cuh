// implicit_gemm_sm90: its constants, and the way from global to shared memory: by the copy engine, or by threads that
// round and split. Compiled after implicit_gemm_sm90_geometry.h.

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

}  // namespace knobwise::implicit_gemm_sm90
