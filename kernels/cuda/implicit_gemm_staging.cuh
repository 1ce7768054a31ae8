// implicit_gemm: from global to shared memory, rounded and split on the way.

namespace knobwise::implicit_gemm {

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

}  // namespace knobwise::implicit_gemm
