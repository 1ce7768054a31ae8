// implicit_gemm: which results a lane holds.

namespace knobwise::implicit_gemm {

/// What a lane works on: it holds the results of kPositions positions and kChannels channels.
struct Place {
  BlockOrigin block;
  TilePlace at;
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
    return {KW_EPILOGUE_REDUCE_DEPTH ? 0 : at.tile.d * KNOB_tile_d + p.d, at.tile.h * KNOB_tile_h + p.h,
            at.tile.w * KNOB_tile_w + p.w};
  }
  __device__ __forceinline__ bool valid(int index) const {
    constexpr int kCount = geometry().positions();
    const Triple p = output(index);
    return (!geometry().idle_columns() || position(index) < kCount) &&
           (kResultD % KNOB_tile_d == 0 || p.d < kResultD) && (KW_OH % KNOB_tile_h == 0 || p.h < KW_OH) &&
           (KW_OW % KNOB_tile_w == 0 || p.w < KW_OW);
  }
};

}  // namespace knobwise::implicit_gemm
