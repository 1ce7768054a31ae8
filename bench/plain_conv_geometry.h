// The arithmetic of plain_conv's tiles, for the host and the kernel: compiles on the host and under NVRTC.
#ifndef KNOBWISE_BENCH_PLAIN_CONV_GEOMETRY_H
#define KNOBWISE_BENCH_PLAIN_CONV_GEOMETRY_H

#ifdef __CUDACC__
#define KW_PLAIN_FN __host__ __device__ constexpr
#else
#define KW_PLAIN_FN constexpr
#endif

namespace knobwise::plain_conv {

struct Triple {
  int d, h, w;
};

/// Where a block's input is read from: memory, or shared memory with the tile's halo or with a copy of the
/// filter's reach for each position.
enum class Input { global, halo, patch };

struct Geometry {
  int n, c, k;
  Triple filter, stride, dilation, out;
  bool reduce_depth, softmax, norm;  ///< What the epilogue fuses.
  int tile_h, tile_w;                ///< Positions of a block; tile_w consecutive ones of the plane if flat.
  bool flat;
  int positions_per_thread, channels_per_block, channels_per_thread;
  int passes;                   ///< Times a block computes channels_per_block channels of its positions.
  int depth_groups;             ///< Groups of threads that share out the depths that are reduced.
  int input_channels_per_step;  ///< That are staged at a time.
  Input input;
  bool weights_shared, outputs_shared;

  KW_PLAIN_FN int taps() const { return filter.d * filter.h * filter.w; }
  KW_PLAIN_FN int positions() const { return tile_h * tile_w; }
  KW_PLAIN_FN int plane() const { return out.h * out.w; }
  KW_PLAIN_FN int position_threads() const { return positions() / positions_per_thread; }
  KW_PLAIN_FN int channel_threads() const { return channels_per_block / channels_per_thread; }
  KW_PLAIN_FN int group_threads() const { return position_threads() * channel_threads(); }
  KW_PLAIN_FN int threads() const { return group_threads() * depth_groups; }

  KW_PLAIN_FN int block_channels() const { return channels_per_block * passes; }
  KW_PLAIN_FN int channel_blocks() const { return (k + block_channels() - 1) / block_channels(); }
  KW_PLAIN_FN int packed_channels() const { return channel_blocks() * block_channels(); }
  KW_PLAIN_FN int tiles_w() const { return (out.w + tile_w - 1) / tile_w; }
  KW_PLAIN_FN int tiles() const {
    return flat ? (plane() + tile_w - 1) / tile_w : tiles_w() * ((out.h + tile_h - 1) / tile_h);
  }
  KW_PLAIN_FN int depths() const { return reduce_depth ? 1 : out.d; }  ///< Of the blocks of a tile.
  KW_PLAIN_FN long long blocks() const { return 1LL * n * depths() * tiles() * channel_blocks(); }

  /// Rows and columns of outputs that a tile spans; a flat one spans whole rows.
  KW_PLAIN_FN int tile_rows() const {
    const int rows = (tile_w + out.w - 2) / out.w + 1;
    return !flat ? tile_h : rows < out.h ? rows : out.h;
  }
  KW_PLAIN_FN int tile_columns() const { return flat ? out.w : tile_w; }
  KW_PLAIN_FN int staged_d() const {
    return (reduce_depth ? (out.d - 1) * stride.d : 0) + (filter.d - 1) * dilation.d + 1;
  }
  KW_PLAIN_FN int staged_h() const { return (tile_rows() - 1) * stride.h + (filter.h - 1) * dilation.h + 1; }
  KW_PLAIN_FN int staged_w() const {
    return (tile_columns() - 1) * stride.w + (filter.w - 1) * dilation.w + 1;
  }
  KW_PLAIN_FN int patch_elements() const {
    return input_channels_per_step * staged_d() * filter.h * filter.w;
  }
  KW_PLAIN_FN int input_elements() const {
    return input == Input::global  ? 0
           : input == Input::patch ? positions() * patch_elements()
                                   : input_channels_per_step * staged_d() * staged_h() * staged_w();
  }
  KW_PLAIN_FN int weight_elements() const {
    return weights_shared ? block_channels() * input_channels_per_step * taps() : 0;
  }
  /// Results that threads exchange: of the groups of depths, or of all channels, or of the norm.
  KW_PLAIN_FN int exchanged_elements() const {
    const int partial = depth_groups > 1 ? threads() * positions_per_thread * channels_per_thread : 0;
    const int results = softmax || (norm && outputs_shared) ? block_channels() * positions() : 0;
    return partial > results ? partial : results;
  }

  /// In floats from the start of shared memory, multiples of 4.
  KW_PLAIN_FN int weights_offset() const { return (input_elements() + 3) / 4 * 4; }
  KW_PLAIN_FN int exchange_offset() const { return weights_offset() + (weight_elements() + 3) / 4 * 4; }
  KW_PLAIN_FN int shared_elements() const { return exchange_offset() + exchanged_elements(); }
};

}  // namespace knobwise::plain_conv

#undef KW_PLAIN_FN

#endif
