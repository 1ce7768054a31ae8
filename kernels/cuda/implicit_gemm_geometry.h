// Where the implicit GEMM of register operands keeps every input, weight and output: one description for the
// device source and the host.
//
// Compiles as C++17 on the host and under NVRTC; includes nothing.
#ifndef KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_GEOMETRY_H
#define KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_GEOMETRY_H

#ifdef __CUDACC__
#define KW_HOST_DEVICE __host__ __device__
#else
#define KW_HOST_DEVICE
#endif

namespace knobwise::implicit_gemm {

struct Triple {
  int d, h, w;
};

/// What a block works on.
struct BlockOrigin {
  int group;          ///< Of the convolution.
  int channel_block;  ///< Within the group.
  int first_tile;     ///< Index of the first output tile, counted over all samples.
  int part;           ///< Of the reduction.
};

/// An output tile.
struct TilePlace {
  int sample;
  Triple tile;
};

constexpr KW_HOST_DEVICE int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
constexpr KW_HOST_DEVICE int round_up(int a, int b) {
  return ceil_div(a, b) * b;
}
constexpr KW_HOST_DEVICE int smaller(int a, int b) {
  return a < b ? a : b;
}
constexpr KW_HOST_DEVICE int common_divisor(int a, int b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

/// A convolution as a matrix product, and its tiling. Rows are output channels, columns output positions, the
/// reduction runs over vectors. Obtain derived figures from the members only.
///
/// A *vector* is what one lane feeds to one matrix instruction for one column: vector_elements() neighbours
/// along the input channels, or along w (gather_taps). An *entry* is a vector in shared memory, split into
/// `splits` terms. An instruction takes 4 vectors of 8 columns, one for each of the 4 lanes of a quad.
///
/// A block computes channels_per_block channels of a tile of positions, w fastest. Its input, with the halo,
/// lies in shared memory as entries [plane][d][h][w], where a plane is a chunk of channels, or one channel
/// (gather_taps). A warp computes warp_positions x warp_channels.
struct Geometry {
  // The problem.
  int samples, input_channels, output_channels, groups;
  Triple in, filter, stride, pad, dilation, out;
  // The tiling.
  Triple tile;
  int channels_per_block, warp_positions, warp_channels;
  int channels_per_step;  ///< Input channels staged together.
  int tiles_per_block;    ///< Output tiles, at most, that a block goes through one after another.
  int wave_blocks;        ///< Blocks that the device runs at once.
  int split_k;            ///< Parts of the reduction, each a block's; above 1 a block has one tile.
  int stages;             ///< Steps whose operands are in shared memory at once.
  int producer_warps;  ///< Warps that only stage operands, ahead of the others; 0: all stage, then multiply.
  int store_width;     ///< Neighbours in the output that one access writes: 1, 2, 4 or 8.
  int store_channels;  ///< Channels of a warp on their way out at once: rows of positions, or of channels
                       ///< (channels_last).
  int element_bytes;   ///< Of the output.
  int channels_last;   ///< 1: the channel is the fastest dimension of input and output.
  int fetch_width;     ///< Neighbours along w that one load fetches: 1, 2 or 4.
  int word_elements;   ///< Elements in a 32-bit operand: 2 (16-bit types) or 1 (tf32).
  int splits;          ///< Terms that an operand is a sum of: 1 or 2.
  int gather_taps;     ///< 1: a vector's elements are neighbours along w; 0: along the channels.
  int taps_outermost;  ///< 1: vectors in the order (tap, plane); 0: (plane, tap).
  int weights_shared;  ///< 1: weights are staged in shared memory; 0: read through the cache.
  int weights_resident;    ///< 1: those of all steps stay in shared memory.
  int warpgroup;           ///< 1: instructions of warpgroups; 0: of warps.
  int channels_first;      ///< 1: neighbouring blocks differ in channels; 0: in position.
  int whole_depth;         ///< 1: a block goes through all output depths, one at a time.
  int walk_inputs;         ///< 1: it goes through the input depths, each for all outputs that it is a tap of.
  int row_pad, plane_pad;  ///< Unused entries after a row and a plane, against bank conflicts.

  // ---- Channels ----
  constexpr KW_HOST_DEVICE int inputs_per_group() const { return input_channels / groups; }
  constexpr KW_HOST_DEVICE int outputs_per_group() const { return output_channels / groups; }
  constexpr KW_HOST_DEVICE int channel_blocks() const {
    return ceil_div(outputs_per_group(), channels_per_block);
  }
  constexpr KW_HOST_DEVICE int channel_steps() const {
    return ceil_div(inputs_per_group(), channels_per_step);
  }
  /// Steps of a part of the reduction; the last part may have fewer.
  constexpr KW_HOST_DEVICE int part_steps() const { return ceil_div(channel_steps(), split_k); }
  constexpr KW_HOST_DEVICE int part_begin(int part) const { return part * part_steps(); }
  constexpr KW_HOST_DEVICE int part_end(int part) const {
    return smaller(channel_steps(), part_begin(part) + part_steps());
  }
  /// Channels of the whole output, each group padded to whole blocks.
  constexpr KW_HOST_DEVICE int padded_channels() const {
    return groups * channel_blocks() * channels_per_block;
  }

  // ---- Vectors of the reduction ----
  constexpr KW_HOST_DEVICE int vector_elements() const { return 2 * word_elements; }
  constexpr KW_HOST_DEVICE int planes() const {
    return gather_taps ? channels_per_step : ceil_div(channels_per_step, vector_elements());
  }
  /// Vectors that a row of taps takes for one plane.
  constexpr KW_HOST_DEVICE int row_vectors() const {
    return gather_taps ? ceil_div(filter.w, vector_elements()) : filter.w;
  }
  constexpr KW_HOST_DEVICE int plane_vectors() const {
    return (walk_inputs ? 1 : filter.d) * filter.h * row_vectors();
  }
  constexpr KW_HOST_DEVICE int vectors() const { return planes() * plane_vectors(); }
  /// Matrix instructions, for a tile of 16 channels and 8 positions, that a step takes.
  constexpr KW_HOST_DEVICE int k_steps() const { return ceil_div(vectors(), 4); }
  constexpr KW_HOST_DEVICE int vector_plane(int v) const {
    return taps_outermost ? v % planes() : v / plane_vectors();
  }
  constexpr KW_HOST_DEVICE int vector_tap(int v) const {
    return taps_outermost ? v / planes() : v % plane_vectors();
  }
  /// Input channel, within the step, of element `element` of vector v.
  constexpr KW_HOST_DEVICE int element_channel(int v, int element) const {
    return gather_taps ? vector_plane(v) : vector_plane(v) * vector_elements() + element;
  }
  /// Tap of element `element` of vector v; its w may be past the filter, and its d is 0 if the walk gives it.
  constexpr KW_HOST_DEVICE Triple element_tap(int v, int element) const {
    const int tap = vector_tap(v), row = tap / row_vectors(), column = tap % row_vectors();
    return {row / filter.h, row % filter.h, gather_taps ? column * vector_elements() + element : column};
  }

  // ---- Input in shared memory, in entries ----
  /// Input elements along w from one entry to the next.
  constexpr KW_HOST_DEVICE int unit() const {
    return gather_taps ? common_divisor(stride.w, vector_elements()) : 1;
  }
  /// Entries of neighbouring columns that a thread fetches together.
  constexpr KW_HOST_DEVICE int item_entries() const { return gather_taps ? 1 : fetch_width; }
  /// Columns staged before the first one needed, so that fetches start aligned.
  constexpr KW_HOST_DEVICE int lead() const { return (fetch_width - pad.w % fetch_width) % fetch_width; }
  constexpr KW_HOST_DEVICE int staged_w() const {
    const int last = (tile.w - 1) * stride.w +
                     (gather_taps ? (row_vectors() - 1) * vector_elements() : (filter.w - 1) * dilation.w);
    return gather_taps ? last / unit() + 1 : round_up(lead() + last + 1, fetch_width);
  }
  constexpr KW_HOST_DEVICE int staged_h() const {
    return (tile.h - 1) * stride.h + (filter.h - 1) * dilation.h + 1;
  }
  constexpr KW_HOST_DEVICE int staged_d() const {
    return ((whole_depth ? out.d : tile.d) - 1) * stride.d + (filter.d - 1) * dilation.d + 1;
  }
  constexpr KW_HOST_DEVICE int row_pitch() const { return staged_w() + row_pad; }
  constexpr KW_HOST_DEVICE int depth_pitch() const { return staged_h() * row_pitch(); }
  constexpr KW_HOST_DEVICE int plane_pitch() const { return staged_d() * depth_pitch() + plane_pad; }
  constexpr KW_HOST_DEVICE int step_entries() const { return planes() * plane_pitch(); }
  /// From the entry of an output position to the one that vector v reads for it.
  constexpr KW_HOST_DEVICE int vector_offset(int v) const {
    if (v >= vectors()) return 0;
    const Triple tap = element_tap(v, 0);
    return vector_plane(v) * plane_pitch() + tap.d * dilation.d * depth_pitch() +
           tap.h * dilation.h * row_pitch() + (gather_taps ? tap.w / unit() : tap.w * dilation.w);
  }
  /// Entry of the tile's position (d, h, w) for a vector with offset 0.
  constexpr KW_HOST_DEVICE int position_entry(Triple position) const {
    return lead() + position.d * stride.d * depth_pitch() + position.h * stride.h * row_pitch() +
           position.w * (stride.w / unit());
  }
  constexpr KW_HOST_DEVICE int entry_bytes() const { return 8 * splits; }

  // ---- Weights ----
  /// Bytes of one step's weights of a block: [k step][16 channels][split][lane][4 operands], or, for
  /// warpgroups, [k step][split][half of an entry][channel][4 vectors].
  constexpr KW_HOST_DEVICE int weight_step_bytes() const {
    return k_steps() * weight_columns() * 4 * entry_bytes();
  }
  /// Output depths whose sums a lane has at once. Those of output depth d are slice d % slices().
  constexpr KW_HOST_DEVICE int slices() const { return walk_inputs ? filter.d : 1; }
  /// Columns of the weights: with several slices, the block's channels for a run of depth taps that holds, in
  /// the order of the slices, the taps of every input depth.
  constexpr KW_HOST_DEVICE int weight_columns() const { return channels_per_block * (2 * slices() - 1); }
  constexpr KW_HOST_DEVICE int column_depth_tap(int column) const {
    return walk_inputs ? (2 * filter.d - 1 - column / channels_per_block) % filter.d : 0;
  }
  /// First column for input depths d with d % slices() == phase: slice s then meets tap (phase - s) mod
  /// slices().
  constexpr KW_HOST_DEVICE int phase_column(int phase) const {
    return (slices() - 1 - phase) * channels_per_block;
  }
  /// Bytes of the packed weights: [group][channel block][step]; the per-channel vectors follow.
  constexpr KW_HOST_DEVICE long long packed_weight_bytes() const {
    return static_cast<long long>(groups) * channel_blocks() * channel_steps() * weight_step_bytes();
  }

  // ---- Warps and lanes ----
  constexpr KW_HOST_DEVICE int positions() const { return (whole_depth ? 1 : tile.d) * tile.h * tile.w; }
  constexpr KW_HOST_DEVICE int position_warps() const {
    return round_up(ceil_div(positions(), warp_positions), warpgroup ? 4 : 1);
  }
  constexpr KW_HOST_DEVICE int channel_warps() const { return channels_per_block / warp_channels; }
  /// True if the warps have columns past the tile's last position.
  constexpr KW_HOST_DEVICE bool idle_columns() const {
    return positions() < position_warps() * warp_positions;
  }
  /// Threads that multiply; those of the producers come after them.
  constexpr KW_HOST_DEVICE int consumers() const { return 32 * position_warps() * channel_warps(); }
  constexpr KW_HOST_DEVICE int threads() const { return consumers() + 32 * producer_warps; }
  /// Threads that stage.
  constexpr KW_HOST_DEVICE int stagers() const {
    return producer_warps > 0 ? 32 * producer_warps : consumers();
  }
  /// Instructions of a warp along the positions.
  constexpr KW_HOST_DEVICE int column_tiles() const { return warp_positions / 8; }
  /// Position, within the block, of column `column` of 8 of an instruction: may be past positions(). Lane l
  /// reads column l / 4 and holds the results of columns 2 * (l % 4) and the next, for channel l / 4 of 8; of
  /// warpgroup instructions those of column l / 4, for channels 2 * (l % 4) and the next.
  constexpr KW_HOST_DEVICE int column_position(int position_warp, int column_tile, int column) const {
    return position_warp * warp_positions + column_tile * 8 + column;
  }
  /// Position of a lane's result `index` of lane_positions().
  constexpr KW_HOST_DEVICE int result_position(int position_warp, int lane, int index) const {
    return warpgroup ? column_position(position_warp, index, lane / 4)
                     : column_position(position_warp, index / 2, lane % 4 * 2 + index % 2);
  }
  constexpr KW_HOST_DEVICE int lane_positions() const { return warp_positions / (warpgroup ? 8 : 4); }
  /// Channel, within the block, of a lane's result `index` of lane_channels().
  constexpr KW_HOST_DEVICE int result_channel(int channel_warp, int lane, int index) const {
    return channel_warp * warp_channels +
           (warpgroup ? index / 2 * 8 + lane % 4 * 2 + index % 2 : index * 8 + lane / 4);
  }
  constexpr KW_HOST_DEVICE int lane_channels() const { return warp_channels / (warpgroup ? 4 : 8); }
  /// Blocks of whole rows: neighbouring positions are neighbours in the output, across rows too.
  constexpr KW_HOST_DEVICE bool flat() const { return tile.w == out.w && (tile.d == 1 || tile.h == out.h); }
  constexpr KW_HOST_DEVICE Triple position_at(int position) const {
    return {position / (tile.w * tile.h), position / tile.w % tile.h, position % tile.w};
  }

  // ---- Blocks ----
  constexpr KW_HOST_DEVICE Triple tiles() const {
    return {whole_depth ? 1 : ceil_div(out.d, tile.d), ceil_div(out.h, tile.h), ceil_div(out.w, tile.w)};
  }
  constexpr KW_HOST_DEVICE long long tiles_per_sample() const {
    return static_cast<long long>(tiles().d) * tiles().h * tiles().w;
  }
  constexpr KW_HOST_DEVICE int all_tiles() const { return samples * static_cast<int>(tiles_per_sample()); }
  /// Blocks that share the tiles of all samples: a block takes every tile_stride()-th, so that those that run
  /// at the same time read and write neighbours. With several tiles a block, as many as fill the device.
  constexpr KW_HOST_DEVICE int tile_stride() const {
    const int least = ceil_div(all_tiles(), tiles_per_block),
              wave = wave_blocks / (groups * channel_blocks());
    return tiles_per_block == 1 || wave < 2 ? least : smaller(all_tiles(), round_up(least, wave));
  }
  constexpr KW_HOST_DEVICE long long blocks() const {
    return static_cast<long long>(tile_stride()) * groups * channel_blocks() * split_k;
  }
  constexpr KW_HOST_DEVICE BlockOrigin origin(unsigned index) const {
    // Neighbouring blocks are the parts of one reduction.
    const unsigned parts = static_cast<unsigned>(split_k), block = index / parts;
    const unsigned channel_count = static_cast<unsigned>(groups * channel_blocks());
    // Unless channels come first: all tiles of a channel, or those of a sample if a block has one tile.
    const unsigned run = static_cast<unsigned>(tiles_per_block == 1 ? tiles_per_sample() : tile_stride());
    const unsigned rest = block % (channel_count * run);
    const unsigned channel = channels_first ? block % channel_count : rest / run;
    const unsigned tile =
        channels_first ? block / channel_count : block / (channel_count * run) * run + rest % run;
    return {static_cast<int>(channel) / channel_blocks(), static_cast<int>(channel) % channel_blocks(),
            static_cast<int>(tile), static_cast<int>(index % parts)};
  }
  constexpr KW_HOST_DEVICE int block_tiles(const BlockOrigin& block) const {
    return ceil_div(all_tiles() - block.first_tile, tile_stride());
  }
  /// Tile `index` of a block.
  constexpr KW_HOST_DEVICE TilePlace tile_at(const BlockOrigin& block, int index) const {
    const int tile = block.first_tile + index * tile_stride(),
              per_sample = static_cast<int>(tiles_per_sample());
    const int in_sample = tile % per_sample;
    return {tile / per_sample,
            {in_sample / (tiles().w * tiles().h), in_sample / tiles().w % tiles().h, in_sample % tiles().w}};
  }

  // ---- Shared memory, in bytes: [vector offsets][barriers][weights][input][epilogue] ----
  constexpr KW_HOST_DEVICE int input_buffers() const {
    return smaller(stages, part_steps() * tiles_per_block);
  }
  constexpr KW_HOST_DEVICE int weight_buffers() const {
    return !weights_shared        ? 0
           : weights_resident     ? channel_steps()
           : channel_steps() == 1 ? 1
                                  : input_buffers();
  }
  /// With producers: two barriers of every input buffer, 8 bytes each.
  constexpr KW_HOST_DEVICE int barriers_begin() const { return 16 * k_steps(); }
  constexpr KW_HOST_DEVICE int barriers() const { return producer_warps > 0 ? 2 * input_buffers() : 0; }
  constexpr KW_HOST_DEVICE int weights_begin() const {
    return round_up(barriers_begin() + 8 * barriers(), 128);
  }
  constexpr KW_HOST_DEVICE int input_begin() const {
    return weights_begin() + weight_buffers() * weight_step_bytes();
  }
  constexpr KW_HOST_DEVICE int input_bytes() const { return round_up(step_entries() * entry_bytes(), 128); }
  constexpr KW_HOST_DEVICE int epilogue_begin() const {
    return input_begin() + input_buffers() * input_bytes();
  }
  /// Warps that collect results together: a warpgroup's, whose positions are neighbours, for longer runs.
  constexpr KW_HOST_DEVICE int store_warps() const { return warpgroup && !channels_last ? 4 : 1; }
  constexpr KW_HOST_DEVICE int store_positions() const { return store_warps() * warp_positions; }
  constexpr KW_HOST_DEVICE int out_pitch() const {
    return channels_last ? store_channels + 8 : store_positions() + (warpgroup && element_bytes == 4 ? 4 : 8);
  }
  /// Of one of the two buffers that those warps fill in turns.
  constexpr KW_HOST_DEVICE int out_elements() const {
    return (channels_last ? warp_positions : store_channels) * out_pitch();
  }
  constexpr KW_HOST_DEVICE int out_bytes() const {
    return (store_warps() > 1 ? 2 : 1) * out_elements() * element_bytes;
  }
  constexpr KW_HOST_DEVICE int norm_begin() const {
    return epilogue_begin() + position_warps() * channel_warps() / store_warps() * out_bytes();
  }
  /// With a norm: a partial sum of every channel from every warp of positions, then two figures of every
  /// channel.
  constexpr KW_HOST_DEVICE int shared_bytes(bool norm) const {
    return norm_begin() + (norm ? 4 * channels_per_block * (position_warps() + 2) : 0);
  }

  /// True if the knobs fit together: every quotient above is exact.
  constexpr KW_HOST_DEVICE bool consistent() const {
    return channels_per_block % warp_channels == 0 && warp_channels % (warpgroup ? 8 : 16) == 0 &&
           warp_positions % (warpgroup ? 16 : 8) == 0 &&
           (!warpgroup || (weights_shared && warp_channels <= 256)) &&
           (!weights_resident || (weights_shared && channel_steps() > 1)) &&
           (!walk_inputs || (warpgroup && whole_depth && stride.d == 1 && dilation.d == 1 &&
                             channels_per_block == warp_channels && slices() * warp_channels <= 256)) &&
           stores_fit() && fetches_fit() && (producer_warps > 0) == (stages > 1) &&
           (!gather_taps || dilation.w == 1) && (!whole_depth || (tile.d == 1 && channel_steps() == 1)) &&
           (channel_steps() == 1 || gather_taps || channels_per_step % vector_elements() == 0) &&
           (split_k == 1 ||
            (tiles_per_block == 1 && !whole_depth && part_begin(split_k - 1) < channel_steps()));
  }
  constexpr KW_HOST_DEVICE bool stores_fit() const {
    if (warp_channels % store_channels != 0 || store_channels % 8 != 0) return false;
    if (channels_last) return outputs_per_group() % store_width == 0 && output_channels % store_width == 0;
    return warp_positions % store_width == 0 &&
           (flat() ? tile.h * out.w % store_width == 0 && out.h * out.w % store_width == 0
                   : tile.w % store_width == 0 && out.w % store_width == 0);
  }
  constexpr KW_HOST_DEVICE bool fetches_fit() const {
    return fetch_width == 1 || (in.w % fetch_width == 0 && (tiles().w == 1 || tile.w * stride.w % fetch_width == 0) &&
                                (!gather_taps || (pad.w % fetch_width == 0 && unit() % fetch_width == 0)));
  }

  // ---- Bank conflicts ----
  /// Cycles of shared memory beyond the least that a warp takes to read step `k_step` of a column tile.
  KW_HOST_DEVICE int conflicts(int k_step, int column_tile) const {
    const int lanes = 128 / entry_bytes();
    int entries[32];
    for (int lane = 0; lane < 32; ++lane) entries[lane] = lane_entry(k_step, column_tile, lane);
    int extra = 0;
    for (int first = 0; first < 32; first += lanes) {
      int in_bank[32] = {};
      int worst = 1;
      for (int lane = first; lane < first + lanes; ++lane) {
        bool seen = false;
        for (int before = first; before < lane; ++before) seen = seen || entries[before] == entries[lane];
        if (seen) continue;
        const int same = ++in_bank[entries[lane] % lanes];
        if (same > worst) worst = same;
      }
      extra += worst - 1;
    }
    return extra;
  }
  KW_HOST_DEVICE int lane_entry(int k_step, int column_tile, int lane) const {
    const int position = smaller(column_position(0, column_tile, lane / 4), positions() - 1);
    return position_entry(position_at(position)) + vector_offset(4 * k_step + lane % 4);
  }
};

}  // namespace knobwise::implicit_gemm

#endif  // KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_GEOMETRY_H
