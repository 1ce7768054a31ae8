// The arithmetic of plain_conv's tiles, for the host and the kernel: compiles on the host and under NVRTC.
#ifndef KNOBWISE_BENCH_PLAIN_CONV_GEOMETRY_H
#define KNOBWISE_BENCH_PLAIN_CONV_GEOMETRY_H

#ifdef __CUDACC__
#define KW_HOST_DEVICE __host__ __device__
#else
#define KW_HOST_DEVICE
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

  constexpr KW_HOST_DEVICE int taps() const { return filter.d * filter.h * filter.w; }
  constexpr KW_HOST_DEVICE int positions() const { return tile_h * tile_w; }
  constexpr KW_HOST_DEVICE int plane() const { return out.h * out.w; }
  constexpr KW_HOST_DEVICE int position_threads() const { return positions() / positions_per_thread; }
  constexpr KW_HOST_DEVICE int channel_threads() const { return channels_per_block / channels_per_thread; }
  constexpr KW_HOST_DEVICE int group_threads() const { return position_threads() * channel_threads(); }
  constexpr KW_HOST_DEVICE int threads() const { return group_threads() * depth_groups; }

  constexpr KW_HOST_DEVICE int block_channels() const { return channels_per_block * passes; }
  constexpr KW_HOST_DEVICE int channel_blocks() const {
    return (k + block_channels() - 1) / block_channels();
  }
  constexpr KW_HOST_DEVICE int packed_channels() const { return channel_blocks() * block_channels(); }
  constexpr KW_HOST_DEVICE int tiles_w() const { return (out.w + tile_w - 1) / tile_w; }
  constexpr KW_HOST_DEVICE int tiles() const {
    return flat ? (plane() + tile_w - 1) / tile_w : tiles_w() * ((out.h + tile_h - 1) / tile_h);
  }
  constexpr KW_HOST_DEVICE int depths() const {
    return reduce_depth ? 1 : out.d;
  }  ///< Of the blocks of a tile.
  constexpr KW_HOST_DEVICE long long blocks() const {
    return 1LL * n * depths() * tiles() * channel_blocks();
  }

  /// Rows and columns of outputs that a tile spans; a flat one spans whole rows.
  constexpr KW_HOST_DEVICE int tile_rows() const {
    const int rows = (tile_w + out.w - 2) / out.w + 1;
    return !flat ? tile_h : rows < out.h ? rows : out.h;
  }
  constexpr KW_HOST_DEVICE int tile_columns() const { return flat ? out.w : tile_w; }
  constexpr KW_HOST_DEVICE int staged_d() const {
    return (reduce_depth ? (out.d - 1) * stride.d : 0) + (filter.d - 1) * dilation.d + 1;
  }
  constexpr KW_HOST_DEVICE int staged_h() const {
    return (tile_rows() - 1) * stride.h + (filter.h - 1) * dilation.h + 1;
  }
  constexpr KW_HOST_DEVICE int staged_w() const {
    return (tile_columns() - 1) * stride.w + (filter.w - 1) * dilation.w + 1;
  }
  constexpr KW_HOST_DEVICE int patch_elements() const {
    return input_channels_per_step * staged_d() * filter.h * filter.w;
  }
  constexpr KW_HOST_DEVICE int input_elements() const {
    return input == Input::global  ? 0
           : input == Input::patch ? positions() * patch_elements()
                                   : input_channels_per_step * staged_d() * staged_h() * staged_w();
  }
  constexpr KW_HOST_DEVICE int weight_elements() const {
    return weights_shared ? block_channels() * input_channels_per_step * taps() : 0;
  }
  /// Results that threads exchange: of the groups of depths, or of all channels, or of the norm.
  constexpr KW_HOST_DEVICE int exchanged_elements() const {
    const int partial = depth_groups > 1 ? threads() * positions_per_thread * channels_per_thread : 0;
    const int results = softmax || (norm && outputs_shared) ? block_channels() * positions() : 0;
    return partial > results ? partial : results;
  }

  /// In floats from the start of shared memory, multiples of 4.
  constexpr KW_HOST_DEVICE int weights_offset() const { return (input_elements() + 3) / 4 * 4; }
  constexpr KW_HOST_DEVICE int exchange_offset() const {
    return weights_offset() + (weight_elements() + 3) / 4 * 4;
  }
  constexpr KW_HOST_DEVICE int shared_elements() const { return exchange_offset() + exchanged_elements(); }
};

}  // namespace knobwise::plain_conv

#endif
