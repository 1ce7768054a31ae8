// implicit_gemm: the matrix instructions of one step, for warpgroups (wgmma): rows are output positions, gathered
// into registers; columns are output channels, their weights in shared memory.

#if KW_WARPGROUP
namespace knobwise::implicit_gemm {

/// Instructions of a warpgroup along the positions: 64 each, 16 of every warp.
constexpr int kRowTiles = KNOB_warp_positions / 16;
constexpr int kColumns = geometry().slices() * KNOB_warp_channels, kWeightColumns = geometry().weight_columns();
/// The instruction for e5m2 keeps too few bits of what it adds to. So the sums of the errors come first, where one step has the
/// whole reduction, or are apart, after the other sums.
constexpr bool kErrorsFirst = kErrorSums && geometry().channel_steps() == 1 && geometry().slices() == 1;
constexpr bool kErrorsApart = kErrorSums && !kErrorsFirst;
constexpr int kSumTiles = kErrorsApart ? 2 * kRowTiles : kRowTiles;
using Sums = float[kSumTiles][kColumns / 2];

/// The sum of the lane's position p and channel c: starts it, and gives what it has come to. Slice s begins at
/// channel s * kChannels.
__device__ __forceinline__ void start_sum(Sums& sums, int p, int c, float value) {
  const int index = c / 2 * 4 + p % 2 * 2 + c % 2;
  sums[p / 2][index] = kErrorsFirst ? 0 : value;
  if constexpr (kErrorsApart) sums[kRowTiles + p / 2][index] = 0;
}
__device__ __forceinline__ float total(const Sums& sums, int p, int c) {
  const int index = c / 2 * 4 + p % 2 * 2 + c % 2;
  if constexpr (kErrorsApart) return fmaf(sums[kRowTiles + p / 2][index], 1 / kErrorScale, sums[p / 2][index]);
  return sums[p / 2][index];
}

/// The lanes l ^ kChannelLanes, l ^ 2 * kChannelLanes .. hold the other channels of a lane's positions; those with l ^ kPositionLanes ..
/// the other positions of its channels: kChannelSteps and kPositionSteps doublings.
constexpr int kChannelLanes = 1, kChannelSteps = 2, kPositionLanes = 4, kPositionSteps = 3;

/// Passes over the vectors of a step: with errors first, one for them and one for the values.
constexpr int kPasses = kErrorsFirst ? 2 : 1;
/// Terms that a pass takes.
constexpr int kLoadedTerms = kSplits / kPasses;
/// Where the terms of a pass begin in an entry.
__device__ constexpr int pass_begin(int pass) {
  return kErrorsFirst && pass == 0 ? 8 : 0;
}
/// A lane's operands of one k step.
using Operands = unsigned[kRowTiles][kLoadedTerms][4];

__device__ __forceinline__ void load_operands(Operands& operands, const unsigned char* input,
                                              const int (&columns)[kColumnTiles]) {
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    if constexpr (kErrorsFirst) {
      const uint2 words = *reinterpret_cast<const uint2*>(input + columns[n]);
      operands[n / 2][0][n % 2] = words.x, operands[n / 2][0][2 + n % 2] = words.y;
    } else {
      const Entry entry = load_entry(input + columns[n]);
#pragma unroll
      for (int term = 0; term < kLoadedTerms; ++term)
#pragma unroll
        for (int i = 0; i < 2; ++i) operands[n / 2][term][2 * i + n % 2] = entry.words[2 * term + i];
    }
  }
}

/// Queues the products of one k step of a pass; `weights` describes its weights for the warpgroup.
template <int kPass>
__device__ __forceinline__ void queue_products(Sums& sums, const Operands& operands, unsigned long long weights) {
  constexpr int kTerm = 2 * kWeightColumns;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#if KNOB_precision_fp16_e5m2
    if constexpr (kErrorsApart || kPass == 0)
      kw_multiply_errors(sums[kErrorsApart ? kRowTiles + m : m], operands[m][kLoadedTerms - 1], weights + kTerm);
    if constexpr (kErrorsFirst && kPass == 0) continue;
#else
    if constexpr (kSplits == 2) {  // the small terms first
      kw_multiply(sums[m], operands[m][0], weights + kTerm);
      kw_multiply(sums[m], operands[m][kSplits - 1], weights);
    }
#endif
    kw_multiply(sums[m], operands[m][0], weights);
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int kPending>
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Offsets of the lane's vectors: in registers if they are few.
struct Offsets {
  static constexpr int kCount = geometry().k_steps();
  static constexpr bool kHeld = kCount <= 12;
  const int* table;
  int held[kHeld ? kCount : 1];

  /// `lane_table` holds the lane's vectors, 4 apart.
  __device__ __forceinline__ explicit Offsets(const int* lane_table) : table(lane_table) {
#pragma unroll
    for (int k = 0; k < (kHeld ? kCount : 0); ++k) held[k] = table[4 * k];
  }
  __device__ __forceinline__ int operator[](int k) const {
    k = smaller(k, kCount - 1);
    return kHeld ? held[k] : table[4 * k];
  }
};

/// A lane's operands on their way from shared memory: the instructions read one set while the next are loaded.
struct Feed {
  static constexpr int kSteps = Offsets::kCount;
  static constexpr int kSets = kRowTiles * kLoadedTerms <= 2 ? 3 : 2;
  static_assert(kPasses == 1 || kSets - 1 <= kSteps, "what is loaded ahead is of this pass or the next");
  /// True if a step ends where the sets began: the first operands of the next can then be loaded at its end.
  static constexpr bool kStepsFollow = kPasses * kSteps % kSets == 0;
  Operands sets[kSets];

  __device__ __forceinline__ void begin(const unsigned char* input, const int (&columns)[kColumnTiles],
                                        const Offsets& offsets) {
#pragma unroll
    for (int k = 0; k < kSets - 1; ++k) load_operands(sets[k], input + pass_begin(0) + offsets[k], columns);
  }
};

/// Waits for all products; the sums can be read after it.
__device__ __forceinline__ void await_sums(Sums& sums) {
  await_products<0>();
#pragma unroll
  for (int m = 0; m < kSumTiles; ++m)
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) asm volatile("" : "+f"(sums[m][i])::"memory");
}

/// Queues the products of one pass over a step's vectors, whose feed has begun. The last loads are the first of the next pass, or
/// of the step at `next` where steps follow each other and there is one.
template <int kPass>
__device__ __forceinline__ void multiply_pass(Sums& sums, Feed& feed, const unsigned char* input,
                                              const unsigned char* next, const int (&columns)[kColumnTiles],
                                              const Offsets& offsets, unsigned long long weights) {
  constexpr int kSteps = Feed::kSteps, kSets = Feed::kSets, kStep = 2 * kWeightColumns * kSplits;
  constexpr int kUnroll = Offsets::kHeld ? ceil_div(kSteps, kSets) : KNOB_unroll, kFirstSet = kPass * kSteps % kSets;
  constexpr bool kLastPass = kPass == kPasses - 1;
  const unsigned char* after = kLastPass ? next + pass_begin(0) : input + pass_begin(kPass + 1);
#pragma unroll kUnroll
  for (int first = 0; first < kSteps; first += kSets)
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const int k = first + set;
      if (k >= kSteps) break;
      queue_products<kPass>(sums, feed.sets[(kFirstSet + set) % kSets], weights + k * kStep);
      await_products<1>();
      const int ahead = k + kSets - 1;
      Operands& free = feed.sets[(kFirstSet + set + kSets - 1) % kSets];
      if (ahead < kSteps)
        load_operands(free, input + pass_begin(kPass) + offsets[ahead], columns);
      else if (!kLastPass || (Feed::kStepsFollow && next))
        load_operands(free, after + offsets[ahead - kSteps], columns);
    }
}

/// Adds the products of one step, whose feed has begun; that of the step at `next` begins where steps follow each
/// other and there is one. `columns` are the byte offsets of the lane's columns; `step_weights` those of the block;
/// `bias` is what sums whose errors come first have not started from.
__device__ __forceinline__ void multiply_step(Sums& sums, Feed& feed, const unsigned char* input,
                                              const unsigned char* next, const int (&columns)[kColumnTiles],
                                              const Offsets& offsets, const unsigned char* step_weights,
                                              const Place& place, const float (&bias)[kChannels]) {
  // The same in all lanes, which the compiler cannot see.
  const int channel_warp = geometry().channel_warps() == 1 ? 0 : __shfl_sync(0xffffffffu, place.channel_warp, 0);
  const unsigned long long weights = describe(shared_address(step_weights) + channel_warp * KNOB_warp_channels * 16, kWeightColumns * 16);
  multiply_pass<0>(sums, feed, input, next, columns, offsets, weights);
  await_sums(sums);
  if constexpr (kErrorsFirst) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i)
        sums[m][i] = fmaf(sums[m][i], 1 / kErrorScale, bias[i / 4 * 2 + i % 2]);
    multiply_pass<kPasses - 1>(sums, feed, input, next, columns, offsets, weights);
    await_sums(sums);
  }
}

}  // namespace knobwise::implicit_gemm
#endif
