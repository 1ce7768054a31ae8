// implicit_gemm: from global to shared memory, rounded and split on the way.

namespace knobwise::implicit_gemm {

/// What a thread fetches at once: entries that are neighbours along w.
struct Item {
  /// Neighbours that one load fetches: along w, or along the channels.
  static constexpr bool kAlongChannels = KW_NHWC && !KW_GATHER_TAPS;
  static constexpr int kRun = !kAlongChannels ? kWidth : kGroupInputs % kVector == 0 && KW_C % kVector == 0 ? kVector : 1;
  static constexpr bool kRunOfEntries = !KW_NHWC && !KW_GATHER_TAPS;
  Neighbours<kRun> runs[kItemEntries * kVector / kRun];

  /// Element e of the entry.
  __device__ __forceinline__ Staged value(int entry, int e) const {
    const int index = kRunOfEntries ? e * kRun + entry : entry * kVector + e;
    return to_staged(runs[index / kRun].element(index % kRun));
  }
};

constexpr int kRowItems = geometry().staged_w() / kItemEntries;
constexpr int kStepItems = geometry().planes() * geometry().staged_d() * geometry().staged_h() * kRowItems;
constexpr int kItems = ceil_div(kStepItems, kStagers);
/// Items that a thread has under way at once.
constexpr int kBatch = smaller(kItems, smaller(8, 1 + KW_STAGED_REGISTERS / static_cast<int>(sizeof(Item) / 4)));

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
  const bool row_inside = place.plane < g.planes() && static_cast<unsigned>(d) < KW_D && static_cast<unsigned>(h) < KW_H;
  const InOffset position = (static_cast<InOffset>(d) * KW_H + h) * KW_W + w;
#if KW_GATHER_TAPS
  const int channel = first_channel + place.plane;
#pragma unroll
  for (int e = 0; e < kVector; e += kWidth)
    item.runs[e / kWidth].load(input + (KW_NHWC ? (position + e) * KW_C + channel
                                                : channel * static_cast<InOffset>(kInPlane) + position + e),
                               row_inside && channel < kGroupInputs && static_cast<unsigned>(w + e) < KW_W);
#else
  const int channel = first_channel + place.plane * kVector;
  const bool inside = row_inside && static_cast<unsigned>(w) < KW_W;
  const Element* source =
      input + (KW_NHWC ? position * KW_C + channel
                       : static_cast<InOffset>(channel) * static_cast<InOffset>(kInPlane) + position);
  constexpr bool kWhole = kGroupInputs % kVector == 0 && kGroupInputs % KNOB_input_channels_per_step == 0;
#pragma unroll
  for (int i = 0; i < (Item::kRunOfEntries ? 1 : kItemEntries); ++i)
#pragma unroll
    for (int e = 0; e < kVector; e += Item::kAlongChannels ? Item::kRun : 1)
      item.runs[Item::kRunOfEntries ? e : (i * kVector + e) / Item::kRun].load(
          source + (KW_NHWC ? static_cast<InOffset>(i) * KW_C + e : e * static_cast<InOffset>(kInPlane)),
          inside && (kWhole || channel + e < kGroupInputs));
#endif
}

__device__ __forceinline__ void swap_entries(Entry& a, Entry& b) {
  const Entry first = a;
  a = b;
  b = first;
}

/// Neighbouring entries of a lane are written in turns, so that no two lanes of an access meet in a bank.
__device__ __forceinline__ void deposit_item(unsigned char* buffer, const Item& item, const ItemPlace& place) {
  Entry entries[kItemEntries];
#pragma unroll
  for (int i = 0; i < kItemEntries; ++i) {
    Staged values[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) values[e] = item.value(i, e);
    entries[i] = make_entry(values);
  }
  unsigned char* target = buffer + place.entry() * kEntryBytes;
  // The banks hold the entries of this many lanes; the next lanes begin with another of theirs.
  constexpr int kLanes = 128 / kEntryBytes / kItemEntries;
  const int turn = threadIdx.x / kLanes % kItemEntries;
#pragma unroll
  for (int bit = 1; bit < kItemEntries; bit *= 2)
#pragma unroll
    for (int i = 0; i < kItemEntries; ++i)
      if ((i & bit) == 0 && (turn & bit) != 0) swap_entries(entries[i], entries[i | bit]);
#pragma unroll
  for (int i = 0; i < kItemEntries; ++i) store_entry(target + (i ^ turn) * kEntryBytes, entries[i]);
}

/// One step of one tile: what to stage.
struct Step {
  TilePlace place;
  int channel_step;
  bool first, last;  ///< Of its tile.
};

/// Steps that a block takes.
__device__ __forceinline__ int steps_of(const BlockOrigin& block) {
  constexpr Geometry g = geometry();
  if constexpr (KNOB_split_k > 1) return g.part_end(block.part) - g.part_begin(block.part);
  return g.block_tiles(block) * g.channel_steps();
}

__device__ __forceinline__ Step step_at(const BlockOrigin& block, int index) {
  constexpr Geometry g = geometry();
  if constexpr (KNOB_split_k > 1)
    return {g.tile_at(block, 0), g.part_begin(block.part) + index, index == 0, index == steps_of(block) - 1};
  const int channel_step = index % g.channel_steps();
  return {g.tile_at(block, index / g.channel_steps()), channel_step, channel_step == 0,
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
      fetch_item(items[i], input, step.place.tile, step.channel_step * KNOB_input_channels_per_step,
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
  const unsigned target = shared_address(buffer);
  const unsigned char* source = packed + static_cast<long long>(channel_step) * kBytes;
#pragma unroll 4
  for (int offset = 16 * thread; offset < kBytes; offset += 16 * threads)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target + offset), "l"(source + offset));
}

/// Ends with this thread's copies visible to the others after their next barrier.
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
#if KW_WARPGROUP
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

}  // namespace knobwise::implicit_gemm
