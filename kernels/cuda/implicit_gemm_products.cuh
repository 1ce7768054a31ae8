// implicit_gemm: the matrix instructions of one step, for single warps.

#if !KW_WARPGROUP
namespace knobwise::implicit_gemm {

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
constexpr int kRowTiles = KNOB_warp_channels / 16;
using Sums = float[kRowTiles][kColumnTiles][4];

/// The sum of the lane's position p and channel c: starts it, and gives what it has come to.
__device__ __forceinline__ void start_sum(Sums& sums, int p, int c, float value) {
  sums[c / 2][p / 2][c % 2 * 2 + p % 2] = value;
}
__device__ __forceinline__ float total(const Sums& sums, int p, int c) {
  return sums[c / 2][p / 2][c % 2 * 2 + p % 2];
}

/// The lanes l ^ kChannelLanes, l ^ 2 * kChannelLanes .. hold the other channels of a lane's positions; those with l ^ kPositionLanes ..
/// the other positions of its channels: kChannelSteps and kPositionSteps doublings.
constexpr int kChannelLanes = 4, kChannelSteps = 3, kPositionLanes = 1, kPositionSteps = 2;

/// Offsets of the lane's vectors, 4 apart.
using Offsets = const int*;

/// Operands are loaded where they are used.
struct Feed {
  static constexpr bool kStepsFollow = false;
  __device__ __forceinline__ void begin(const unsigned char*, const int (&)[kColumnTiles], const Offsets&) {}
};

/// Adds the products of one step. `input` is the buffer; `columns` the byte offsets of the lane's columns;
/// `step_weights` those of the block.
__device__ __forceinline__ void multiply_step(Sums& sums, Feed&, const unsigned char* input, const unsigned char*,
                                              const int (&columns)[kColumnTiles], const Offsets& offsets,
                                              const unsigned char* step_weights, const Place& place,
                                              const float (&)[kChannels]) {
  constexpr Geometry g = geometry();
  const unsigned char* weights = step_weights + place.channel_warp * kRowTiles * kSplits * 512 + place.lane * 16;
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

}  // namespace knobwise::implicit_gemm
#endif
