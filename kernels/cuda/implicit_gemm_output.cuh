// implicit_gemm: from registers by way of shared memory to the output.

namespace knobwise::implicit_gemm {

constexpr int kOutChannels = KNOB_store_channels, kStoreWarps = geometry().store_warps();

/// Where a position of the tile lies in the output's plane, and whether it does.
struct OutputPlace {
  OutOffset offset;
  bool inside;
};

__device__ __forceinline__ OutputPlace output_place(const Place& place, int in_run) {
  constexpr Geometry g = geometry();
  const int position = place.position_warp / kStoreWarps * g.store_positions() + in_run;
  const Triple origin = {KW_EPILOGUE_REDUCE_DEPTH ? 0 : place.at.tile.d * KNOB_tile_d, place.at.tile.h * KNOB_tile_h,
                         place.at.tile.w * KNOB_tile_w};
  const OutOffset first = (static_cast<OutOffset>(origin.d) * KW_OH + origin.h) * KW_OW + origin.w;
  const bool in_tile = !g.idle_columns() || position < g.positions();
  if constexpr (g.flat())
    return {first + position,
            in_tile && (KNOB_tile_d == 1 ? origin.h * KW_OW + position < KW_OH * KW_OW : first + position < kOutPlane)};
  const Triple at = g.position_at(position);
  return {first + (static_cast<OutOffset>(at.d) * KW_OH + at.h) * KW_OW + at.w,
          in_tile && (kResultD % KNOB_tile_d == 0 || origin.d + at.d < kResultD) &&
              (KW_OH % KNOB_tile_h == 0 || origin.h + at.h < KW_OH) &&
              (KW_OW % KNOB_tile_w == 0 || origin.w + at.w < KW_OW)};
}

#if KW_WARPGROUP
/// Writes two blocks of 8 positions x 8 channels of a warp so that positions are neighbours: a lane gives the
/// pairs of channels that it holds, and the address of the first position of channel lane % 8 of block
/// lane / 8 % 2.
__device__ __forceinline__ void store_transposed(Result* row, float a0, float a1, float b0, float b1) {
  unsigned short words[4];
  from_float(words[0], a0), from_float(words[1], a1), from_float(words[2], b0), from_float(words[3], b1);
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                   shared_address(row)),
               "r"(words[0] | static_cast<unsigned>(words[1]) << 16),
               "r"(words[2] | static_cast<unsigned>(words[3]) << 16)
               : "memory");
}
#endif

/// Collects the m-th kOutChannels channels of the warp in `scratch`: rows of positions, or of channels (channels
/// last).
__device__ __forceinline__ void collect_results(Result* scratch, const Results& results, int m, int lane) {
  constexpr int kPitch = geometry().out_pitch();
#if KW_WARPGROUP
#pragma unroll
  for (int octet = 0; octet < kOutChannels; octet += 8) {
    const int c = m * kOutChannels / 4 + octet / 4;
    if constexpr (KW_NHWC) {
#pragma unroll
      for (int p = 0; p < kPositions; ++p)
        store_pair(scratch + (p * 8 + lane / 4) * kPitch + octet + lane % 4 * 2, results[p][c], results[p][c + 1]);
    } else if constexpr (sizeof(Result) == 2) {
#pragma unroll
      for (int p = 0; p < kPositions; p += 2)
        store_transposed(scratch + (octet + lane % 8) * kPitch + (p + lane / 8 % 2) * 8, results[p][c], results[p][c + 1],
                         results[p + 1][c], results[p + 1][c + 1]);
    } else {
#pragma unroll
      for (int p = 0; p < kPositions; ++p)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          from_float(scratch[(octet + lane % 4 * 2 + i) * kPitch + p * 8 + lane / 4], results[p][c + i]);
    }
  }
#else
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
    for (int octet = 0; octet < kOutChannels / 8; ++octet) {
      const int c = m * (kOutChannels / 8) + octet, channel = octet * 8 + lane / 4, position = n * 8 + lane % 4 * 2;
      const float low = results[2 * n][c], high = results[2 * n + 1][c];
      if constexpr (KW_NHWC) {
        from_float(scratch[position * kPitch + channel], low);
        from_float(scratch[(position + 1) * kPitch + channel], high);
      } else {
        store_pair(scratch + channel * kPitch + position, low, high);
      }
    }
#endif
}

/// The output's element at the plane's first position of the warp's first channel.
__device__ __forceinline__ Result* warp_plane(Result* output, const Place& place) {
  const int first_channel = place.block.group * kGroupOutputs + place.block.channel_block * kBlockChannels +
                            place.channel_warp * KNOB_warp_channels;
  return output + (static_cast<long long>(place.block.part) * KW_N + place.at.sample) * KW_K * kOutPlane +
         static_cast<long long>(first_channel) * (KW_NHWC ? 1 : kOutPlane);
}

/// Channels of the group from the warp's first one on.
__device__ __forceinline__ int channels_from(const Place& place) {
  return kGroupOutputs - place.block.channel_block * kBlockChannels - place.channel_warp * KNOB_warp_channels;
}

/// Writes the results of the warp, kOutChannels at a time, by way of `scratch` in shared memory, so that
/// neighbouring lanes write neighbours.
__device__ __forceinline__ void store_results(const Results& results, Result* output, const Element* residual,
                                              const Place& place, Result* scratch) {
  constexpr Geometry g = geometry();
  constexpr int kPitch = g.out_pitch(), kStore = KNOB_store_width;
  // Accesses that a row of the scratch memory takes, those of a lane to a row, and rows that the warps write
  // at once.
  constexpr int kRowAccesses = (KW_NHWC ? kOutChannels : g.store_positions()) / kStore;
  constexpr int kLaneAccesses = kRowAccesses > 32 ? kRowAccesses / 32 : 1;
  constexpr int kWarpRows = kRowAccesses < 32 ? 32 / kRowAccesses : 1, kRows = kStoreWarps * kWarpRows;
  constexpr int kAllRows = KW_NHWC ? KNOB_warp_positions : kOutChannels;
  constexpr bool kRagged = kGroupOutputs % kBlockChannels != 0;
  const int run_warp = place.position_warp % kStoreWarps, lane_row = run_warp * kWarpRows + place.lane / kRowAccesses;
  const int lane_column = place.lane % kRowAccesses * kStore;
  Result* lane_output = warp_plane(output, place);
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
  for (int m = 0; m < KNOB_warp_channels / kOutChannels; ++m) {
    // Warps that write together have two buffers: all have read one when they fill the other.
    Result* buffer = scratch + (kStoreWarps > 1 ? m % 2 * g.out_elements() : 0);
    if (kStoreWarps == 1 || m == 0) store_barrier();
    collect_results(buffer + (KW_NHWC ? 0 : run_warp * KNOB_warp_positions), results, m, place.lane);
    store_barrier();
    if (idle) continue;
    const Result* lane_scratch = buffer + lane_row * kPitch + lane_column;
    const int channels_left = channels_from(place) - m * kOutChannels;
#if KW_NHWC
    if (kRagged && lane_column >= channels_left) continue;
#pragma unroll 4
    for (int row = 0; row < kAllRows; row += kRows) {
      const OutputPlace at = output_place(place, row + lane_row);
      if (at.inside)
        write_results<kStore>(lane_output + m * kOutChannels + at.offset * KW_K, lane_scratch + row * kPitch, output, residual);
    }
#else
#pragma unroll
    for (int j = 0; j < kLaneAccesses; ++j) {
      if (!places[j].inside) continue;
      Result* target = lane_output + m * kOutChannels * kOutPlane + places[j].offset;
#pragma unroll
      for (int row = 0; row < kAllRows; row += kRows)
        if (!kRagged || row + lane_row < channels_left)
          write_results<kStore>(target + row * kOutPlane, lane_scratch + row * kPitch + 32 * j * kStore, output, residual);
    }
#endif
  }
}

}  // namespace knobwise::implicit_gemm
