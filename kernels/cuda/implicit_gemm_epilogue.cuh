// implicit_gemm: what a lane does to its results before they are written. The epilogue's description
// (KW_EPILOGUE_*) and functions (kw_before, kw_between, kw_after) come from the host.

namespace knobwise::implicit_gemm {

/// A lane's results: [position][channel].
using Results = float[kPositions][kChannels];

#if KW_EPILOGUE_REDUCE_DEPTH
/// What changes nothing that it is folded with.
__device__ __forceinline__ float fold_identity() {
  const float infinity = __int_as_float(0x7f800000);
  return KW_EPILOGUE_MIN ? infinity : KW_EPILOGUE_MAX ? -infinity : 0.0f;
}
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

/// The bias of the lane's channels.
__device__ __forceinline__ void load_bias(float (&bias)[kChannels], const float* packed, const Place& place) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c)
    bias[c] = KW_BIAS ? __ldg(packed + kPackedBias + place.padded_channel(c)) : 0.0f;
}

/// Starts every sum of a slice from the bias.
__device__ __forceinline__ void start_sums(Sums& sums, const float (&bias)[kChannels], int slice = 0) {
#pragma unroll
  for (int p = 0; p < kPositions; ++p)
#pragma unroll
    for (int c = 0; c < kChannels; ++c) start_sum(sums, p, slice * kChannels + c, bias[c]);
}

#if KW_EPILOGUE_REDUCE_DEPTH
/// Folds the sums of a slice into the results.
__device__ __forceinline__ void fold_sums(Results& results, const Sums& sums, int slice = 0) {
#pragma unroll
  for (int p = 0; p < kPositions; ++p)
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      results[p][c] = fold(results[p][c], kw_before(total(sums, p, slice * kChannels + c), 0));
}
#endif

#if KW_EPILOGUE_SOFTMAX
/// Softmax over the channels: the lanes of a position hold all of them.
__device__ __forceinline__ void softmax_channels(Results& results, const Place& place) {
#pragma unroll
  for (int p = 0; p < kPositions; ++p) {
    float highest = __int_as_float(0xff800000);
#pragma unroll
    for (int c = 0; c < kChannels; ++c)
      if (place.channel_valid(c)) highest = fmaxf(highest, results[p][c]);
    for (int step = 0; step < kChannelSteps; ++step)
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, kChannelLanes << step));
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kChannels; ++c) {
      results[p][c] = expf(results[p][c] - highest);
      if (place.channel_valid(c)) sum += results[p][c];
    }
    for (int step = 0; step < kChannelSteps; ++step) sum += __shfl_xor_sync(0xffffffffu, sum, kChannelLanes << step);
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
    for (int step = 0; step < kPositionSteps; ++step) sum += __shfl_xor_sync(0xffffffffu, sum, kPositionLanes << step);
    constexpr int kOthers = (kPositionLanes << kPositionSteps) - kPositionLanes;
    if ((place.lane & kOthers) == 0) partial[place.channel(c) * kPositionWarps + place.position_warp] = sum;
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

}  // namespace knobwise::implicit_gemm
