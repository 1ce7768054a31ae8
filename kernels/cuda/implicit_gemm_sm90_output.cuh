// implicit_gemm_sm90: what a warp does with its sums: norms over a cluster, and the way to global memory. Compiled after
// implicit_gemm_sm90_staging.cuh.

namespace knobwise::implicit_gemm_sm90 {

using Sums = float[kColumns / 2];

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
