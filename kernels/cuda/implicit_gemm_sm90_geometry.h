// Where the implicit GEMM on warpgroup instructions keeps every input, weight and output: one description for
// the device source and the host.
//
// Compiles as C++17 on the host and under NVRTC; includes nothing.
#ifndef KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_SM90_GEOMETRY_H
#define KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_SM90_GEOMETRY_H

#ifdef __CUDACC__
#define KW_HOST_DEVICE __host__ __device__
#else
#define KW_HOST_DEVICE
#endif

namespace knobwise::implicit_gemm_sm90 {

struct Triple {
  int d, h, w;
};

/// What a block works on.
struct BlockOrigin {
  int sample;
  int group;          ///< Of the convolution.
  int channel_block;  ///< Within the group.
  int first_tile;     ///< Index of the first output tile.
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
constexpr KW_HOST_DEVICE int larger(int a, int b) {
  return a > b ? a : b;
}

/// A convolution with stride 1 along w as a matrix product, and its tiling. Rows are output channels, 64 a
/// warpgroup; columns are output positions; the reduction runs over chunks of 16 bytes of neighbouring input
/// channels. Obtain derived figures from the members only.
///
/// Work comes in *units*: one step of input channels and one row of taps (t, r). The input of a unit is
/// tile.h rows of the halo, as entries [term][plane][row][w] of 16 bytes, a plane being a chunk of channels.
/// Since neighbouring positions are neighbouring entries, the columns of an instruction for tap s are a
/// window of the rows that begins s * dilation entries further: a matrix without swizzle, whose groups of 8
/// rows are 128 bytes apart. Columns between the rows of a tile are computed and dropped.
struct Geometry {
  // The problem.
  int samples, input_channels, output_channels, groups;
  Triple in, filter, stride, pad, dilation, out;
  // The tiling.
  int tile_h, tile_w;
  int channels_per_block;
  int column_groups;      ///< Warpgroups that share a tile of one row, each with its part of the columns.
  int channels_per_step;  ///< Input channels of a unit.
  int stages;             ///< Units in shared memory at once.
  int tiles_per_block;    ///< Output tiles that a block goes through one after another.
  int chunk_elements;     ///< 8 of a 16-bit type, or 4 of tf32.
  int terms;              ///< Terms that an operand is a sum of: 1 or 2.
  int channels_first;     ///< 1: neighbouring blocks differ in channels; 0: in position.
  int element_bytes;      ///< Of input and output.
  int channels_last;      ///< 1: the channel is the fastest dimension of input and output.
  int copied;             ///< 1: the copy engine brings the input, a plane at a time; 0: threads do.

  // ---- Channels and units ----
  constexpr KW_HOST_DEVICE int inputs_per_group() const { return input_channels / groups; }
  constexpr KW_HOST_DEVICE int outputs_per_group() const { return output_channels / groups; }
  constexpr KW_HOST_DEVICE int channel_blocks() const {
    return ceil_div(outputs_per_group(), channels_per_block);
  }
  constexpr KW_HOST_DEVICE int padded_channels() const {
    return groups * channel_blocks() * channels_per_block;
  }
  constexpr KW_HOST_DEVICE int channel_steps() const {
    return ceil_div(inputs_per_group(), channels_per_step);
  }
  constexpr KW_HOST_DEVICE int tap_rows() const { return filter.d * filter.h; }
  constexpr KW_HOST_DEVICE int units() const { return channel_steps() * tap_rows(); }
  constexpr KW_HOST_DEVICE int unit_step(int unit) const { return unit / tap_rows(); }
  constexpr KW_HOST_DEVICE int unit_t(int unit) const { return unit % tap_rows() / filter.h; }
  constexpr KW_HOST_DEVICE int unit_r(int unit) const { return unit % filter.h; }

  // ---- Chunks of the reduction of a unit ----
  constexpr KW_HOST_DEVICE int planes() const { return ceil_div(channels_per_step, chunk_elements); }
  constexpr KW_HOST_DEVICE int chunks() const { return filter.w * planes(); }
  /// Instructions, each of two chunks, that a unit takes for one term.
  constexpr KW_HOST_DEVICE int k_steps() const { return ceil_div(chunks(), 2); }
  constexpr KW_HOST_DEVICE int chunk_tap(int chunk) const { return chunk / planes(); }
  constexpr KW_HOST_DEVICE int chunk_plane(int chunk) const { return chunk % planes(); }
  /// Entry, within a term, at which the columns of a chunk begin; a chunk past the last reads the last.
  constexpr KW_HOST_DEVICE int chunk_entry(int chunk) const {
    const int c = smaller(chunk, chunks() - 1);
    return lead() + chunk_plane(c) * plane_pitch() + chunk_tap(c) * dilation.w;
  }

  // ---- Columns and input in shared memory, in entries of 16 bytes ----
  /// Neighbours along w that a thread fetches together: 1 or 2.
  constexpr KW_HOST_DEVICE int fetch_width() const {
    return !channels_last && in.w % 2 == 0 && (tile_w % 2 == 0 || tiles().w == 1) ? 2 : 1;
  }
  /// Columns staged before the first one needed, so that fetches start aligned.
  constexpr KW_HOST_DEVICE int lead() const {
    return (fetch_width() - pad.w % fetch_width()) % fetch_width();
  }
  constexpr KW_HOST_DEVICE int row_pitch() const {
    return round_up(lead() + tile_w + (filter.w - 1) * dilation.w, fetch_width());
  }
  constexpr KW_HOST_DEVICE int staged() const { return tile_h * row_pitch(); }
  /// Columns of an instruction: those of a warpgroup.
  constexpr KW_HOST_DEVICE int columns() const {
    return column_groups > 1 ? tile_w / column_groups : round_up((tile_h - 1) * row_pitch() + tile_w, 8);
  }
  /// Copies that a plane takes, and columns of each: at most 256, and where there are several, of one row,
  /// multiples of 128 bytes.
  constexpr KW_HOST_DEVICE int copies() const { return ceil_div(row_pitch(), 256); }
  constexpr KW_HOST_DEVICE int copied_width() const {
    return copies() == 1 ? row_pitch() : round_up(ceil_div(row_pitch(), copies()), 8);
  }
  /// The copy engine writes to multiples of 128 bytes. Channels last, neighbouring threads write neighbouring
  /// planes, 8 of them together: no two meet in a bank if there are 2, 4 or a multiple of 8 planes.
  constexpr KW_HOST_DEVICE int plane_pitch() const {
    const int least = larger(staged(), lead() + column_groups * columns() + (filter.w - 1) * dilation.w);
    if (copied) return round_up(larger(least, tile_h * copies() * copied_width()), 8);
    if (!channels_last || planes() == 1) return least;
    const int beyond = larger(8 / planes(), 1);
    return round_up(larger(least - beyond, 0), 8) + beyond;
  }
  constexpr KW_HOST_DEVICE int input_bytes() const { return terms * planes() * plane_pitch() * 16; }
  /// Those that the copy engine brings of a unit.
  constexpr KW_HOST_DEVICE int copied_bytes() const {
    return planes() * tile_h * copies() * copied_width() * 16;
  }
  /// Rows of the input from the first to the last of a tile.
  constexpr KW_HOST_DEVICE int spanned_rows() const { return (tile_h - 1) * stride.h + 1; }
  /// Of one unit and block: [term][k step][2 chunks][channel][16 bytes].
  constexpr KW_HOST_DEVICE int weight_bytes() const {
    return terms * k_steps() * 2 * channels_per_block * 16;
  }
  constexpr KW_HOST_DEVICE int stage_bytes() const { return round_up(weight_bytes() + input_bytes(), 128); }
  /// Of all weights: [group][channel block][unit]; the per-channel vectors follow.
  constexpr KW_HOST_DEVICE long long packed_weight_bytes() const {
    return static_cast<long long>(groups) * channel_blocks() * units() * weight_bytes();
  }

  // ---- Threads ----
  /// Warpgroups that share columns, each with 64 channels.
  constexpr KW_HOST_DEVICE int channel_groups() const { return channels_per_block / 64; }
  constexpr KW_HOST_DEVICE int warpgroups() const { return channel_groups() * column_groups; }
  constexpr KW_HOST_DEVICE int consumers() const { return 128 * warpgroups(); }
  constexpr KW_HOST_DEVICE int threads() const { return consumers() + 128; }

  // ---- Output ----
  /// Neighbouring outputs of a channel that one access writes.
  constexpr KW_HOST_DEVICE int store_width() const {
    if (channels_last) return 1;
    int width = 16 / element_bytes;
    while (out.w % width != 0 || tile_w % width != 0 || (tile_h > 1 && row_pitch() % width != 0)) width /= 2;
    return width;
  }
  /// Columns whose results a warp collects in shared memory at once, for 16 channels.
  constexpr KW_HOST_DEVICE int out_columns() const { return smaller(64, columns()); }
  constexpr KW_HOST_DEVICE int out_pitch() const { return out_columns() + 8; }
  constexpr KW_HOST_DEVICE int out_bytes() const { return 16 * out_pitch() * element_bytes; }

  // ---- Shared memory, in bytes: [barriers][stages][output][figures of every channel for a norm] ----
  constexpr KW_HOST_DEVICE int stages_begin() const { return 128; }
  constexpr KW_HOST_DEVICE int output_begin() const { return stages_begin() + stages * stage_bytes(); }
  constexpr KW_HOST_DEVICE int norm_begin() const { return output_begin() + 4 * warpgroups() * out_bytes(); }
  constexpr KW_HOST_DEVICE int shared_bytes(bool norm) const {
    return norm_begin() + (norm ? 8 * channels_per_block * (column_groups + 1) : 0);
  }

  // ---- Blocks ----
  constexpr KW_HOST_DEVICE Triple tiles() const {
    return {out.d, ceil_div(out.h, tile_h), ceil_div(out.w, tile_w)};
  }
  constexpr KW_HOST_DEVICE long long tiles_per_sample() const {
    return static_cast<long long>(tiles().d) * tiles().h * tiles().w;
  }
  constexpr KW_HOST_DEVICE long long tile_groups() const {
    return (tiles_per_sample() + tiles_per_block - 1) / tiles_per_block;
  }
  constexpr KW_HOST_DEVICE long long blocks() const {
    return tile_groups() * samples * groups * channel_blocks();
  }
  constexpr KW_HOST_DEVICE BlockOrigin origin(unsigned block) const {
    const unsigned channel_count = static_cast<unsigned>(groups * channel_blocks());
    const unsigned tile_count = static_cast<unsigned>(tile_groups());
    const unsigned sample = block / (channel_count * tile_count);
    const unsigned rest = block % (channel_count * tile_count);
    const unsigned channel = channels_first ? rest % channel_count : rest / tile_count;
    const unsigned tile_group = channels_first ? rest / channel_count : rest % tile_count;
    return {static_cast<int>(sample), static_cast<int>(channel) / channel_blocks(),
            static_cast<int>(channel) % channel_blocks(), static_cast<int>(tile_group) * tiles_per_block};
  }
  constexpr KW_HOST_DEVICE int block_tiles(int first_tile) const {
    return smaller(tiles_per_block, static_cast<int>(tiles_per_sample()) - first_tile);
  }
  constexpr KW_HOST_DEVICE Triple tile_at(int index) const {
    return {index / (tiles().w * tiles().h), index / tiles().w % tiles().h, index % tiles().w};
  }

  /// True if the knobs fit together. Two chunks of an instruction are a fixed distance apart, and the second
  /// is never before the first.
  constexpr KW_HOST_DEVICE bool consistent() const {
    return stride.w == 1 && channels_per_block % 64 == 0 && columns() <= 256 &&
           (column_groups == 1 || (tile_h == 1 && tile_w % (8 * column_groups) == 0)) &&
           (planes() == 1 || planes() % 2 == 0) && 16 * stages <= stages_begin() &&
           (channel_steps() == 1 || channels_per_step % chunk_elements == 0) &&
           (!copied || (channels_last && terms == 1 && chunk_elements * element_bytes == 16 &&
                        (groups == 1 || inputs_per_group() % (planes() * chunk_elements) == 0) &&
                        input_channels % chunk_elements == 0 &&
                        (tile_h == 1 || (copies() == 1 && spanned_rows() <= 256 && stride.h <= 8))));
  }
};

}  // namespace knobwise::implicit_gemm_sm90

#endif  // KNOBWISE_KERNELS_CUDA_IMPLICIT_GEMM_SM90_GEOMETRY_H
