// Where the direct convolution keeps every input, weight and output: one description for the device source
// and the host.
//
// Compiles as C++17 on the host and under NVRTC; includes nothing. Lengths are elements unless they say
// bytes.
#ifndef KNOBWISE_KERNELS_CUDA_DIRECT_CONV_GEOMETRY_H
#define KNOBWISE_KERNELS_CUDA_DIRECT_CONV_GEOMETRY_H

#ifdef __CUDACC__
#define KW_HOST_DEVICE __host__ __device__
#else
#define KW_HOST_DEVICE
#endif

namespace knobwise::direct_conv {

struct Triple {
  int d, h, w;
};

/// A position in the output of one (sample, group of channels).
struct Position {
  int d, h, w;
};

/// What a block works on.
struct BlockOrigin {
  int sample;
  int group;          ///< Of the convolution.
  int channel_block;  ///< Within the group.
  int first_tile;     ///< Index of the first output tile.
};

/// Elements of a plane that a block of kNormaliseThreads normalises when the norm is a launch of its own.
constexpr int kNormaliseChunk = 4096, kNormaliseThreads = 256;

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
/// Widest of 4, 2, 1 that divides `a`: how many floats one access may move.
constexpr KW_HOST_DEVICE int access_width(int a) {
  return a % 4 == 0 ? 4 : a % 2 == 0 ? 2 : 1;
}

/// A convolution and a register, thread and block tiling of it. Obtain derived figures from the members only.
///
/// A block computes channels_per_block channels of tile.d x tile.h x tile.w positions. A thread computes
/// channels_per_thread channels of pixels.d x pixels.h x pixels.w positions: neighbours along d and h; along
/// w runs of `run` neighbours, the runs lanes().w * run apart, so that neighbouring threads touch
/// neighbouring memory. Input is staged in shared memory for channels_per_step input channels at a time, each
/// row split by its position modulo stride.w, so that a thread reads neighbours whatever the stride.
struct Geometry {
  // The problem.
  int samples, input_channels, output_channels, groups;
  Triple in, filter, stride, pad, dilation, out;
  // The tiling.
  Triple tile, pixels;
  int run;         ///< Neighbouring positions along w.
  int copy_width;  ///< Floats a copy into shared memory moves: 1, 2 or 4.
  int channels_per_block, channels_per_thread;
  int channels_per_step;  ///< Input channels staged together.
  int tiles_per_block;    ///< Output tiles that a block goes through one after another.
  int stages;             ///< Steps whose operands are in shared memory at once, if there are as many.
  int weights_shared;     ///< 1: weights are staged with the input; 0: read through the cache.
  int channels_first;     ///< 1: neighbouring blocks differ in channels; 0: in position.
  int whole_depth;        ///< 1: a block covers all output depths, pixels.d at a time.

  // ---- Channels ----
  constexpr KW_HOST_DEVICE int inputs_per_group() const { return input_channels / groups; }
  constexpr KW_HOST_DEVICE int outputs_per_group() const { return output_channels / groups; }
  constexpr KW_HOST_DEVICE int taps() const { return filter.d * filter.h * filter.w; }
  constexpr KW_HOST_DEVICE int channel_threads() const { return channels_per_block / channels_per_thread; }
  constexpr KW_HOST_DEVICE int channel_blocks() const {
    return ceil_div(outputs_per_group(), channels_per_block);
  }
  /// Channels a thread loads and stores together.
  constexpr KW_HOST_DEVICE int channel_vector() const { return access_width(channels_per_thread); }
  /// Steps over the input channels.
  constexpr KW_HOST_DEVICE int channel_steps() const {
    return ceil_div(inputs_per_group(), channels_per_step);
  }
  /// Register `index` of the thread `thread` of channel_threads() holds this channel of the block.
  constexpr KW_HOST_DEVICE int channel(int thread, int index) const {
    const int vector = channel_vector();
    return index / vector * vector * channel_threads() + thread * vector + index % vector;
  }

  // ---- Positions and threads ----
  constexpr KW_HOST_DEVICE int pixels_per_thread() const { return pixels.d * pixels.h * pixels.w; }
  constexpr KW_HOST_DEVICE int runs() const { return pixels.w / run; }
  constexpr KW_HOST_DEVICE Triple lanes() const {
    return {tile.d / pixels.d, tile.h / pixels.h, tile.w / pixels.w};
  }
  constexpr KW_HOST_DEVICE int pixel_threads() const { return lanes().d * lanes().h * lanes().w; }
  constexpr KW_HOST_DEVICE int tile_positions() const { return tile.d * tile.h * tile.w; }
  constexpr KW_HOST_DEVICE int threads() const { return channel_threads() * pixel_threads(); }
  /// Threads in a row that share their channels: as much of a warp as divides the positions.
  constexpr KW_HOST_DEVICE int pixel_lanes() const {
    int lanes = 32;
    while (pixel_threads() % lanes != 0) lanes /= 2;
    return lanes;
  }
  /// From the fastest: pixel_lanes() positions, the channels, the other positions.
  constexpr KW_HOST_DEVICE int channel_thread(int thread) const {
    return thread / pixel_lanes() % channel_threads();
  }
  constexpr KW_HOST_DEVICE int pixel_thread(int thread) const {
    return thread / (pixel_lanes() * channel_threads()) * pixel_lanes() + thread % pixel_lanes();
  }
  /// First position, within the tile, of a pixel thread: register (0, 0, 0).
  constexpr KW_HOST_DEVICE Position first_position(int pixel_thread) const {
    return {pixel_thread / (lanes().w * lanes().h) * pixels.d,
            pixel_thread / lanes().w % lanes().h * pixels.h, pixel_thread % lanes().w * run};
  }
  /// Offset along w of register `index` of pixels.w from register 0.
  constexpr KW_HOST_DEVICE int offset_w(int index) const {
    return index / run * lanes().w * run + index % run;
  }
  /// Position, within the tile, of a pixel thread's register `index` of pixels_per_thread().
  constexpr KW_HOST_DEVICE Position position(int pixel_thread, int index) const {
    const Position first = first_position(pixel_thread);
    return {first.d + index / (pixels.w * pixels.h), first.h + index / pixels.w % pixels.h,
            first.w + offset_w(index % pixels.w)};
  }
  /// True if the knobs fit together: every quotient above is exact.
  constexpr KW_HOST_DEVICE bool consistent() const {
    return channels_per_block % channels_per_thread == 0 && pixels.w % run == 0 && tile.d % pixels.d == 0 &&
           tile.h % pixels.h == 0 && tile.w % pixels.w == 0 &&
           (copy_width == 1 || (stride.w == 1 && in.w % copy_width == 0 && tile.w % copy_width == 0)) &&
           (whole_depth == 0 || tile.d == pixels.d);
  }

  // ---- Blocks ----
  constexpr KW_HOST_DEVICE Triple tiles() const {
    return {whole_depth ? 1 : ceil_div(out.d, tile.d), ceil_div(out.h, tile.h), ceil_div(out.w, tile.w)};
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
  /// Tiles that the block whose first tile is `first_tile` goes through.
  constexpr KW_HOST_DEVICE int block_tiles(int first_tile) const {
    return smaller(tiles_per_block, static_cast<int>(tiles_per_sample()) - first_tile);
  }
  constexpr KW_HOST_DEVICE Triple tile_at(int index) const {
    return {tiles().d == 1 ? 0 : index / (tiles().w * tiles().h),
            tiles().h == 1 ? 0 : index / tiles().w % tiles().h, index % tiles().w};
  }
  /// Depth tiles that a block goes through one after another.
  constexpr KW_HOST_DEVICE int depth_steps() const { return whole_depth ? ceil_div(out.d, tile.d) : 1; }
  /// Stages that a tile goes through: depth tiles, and within each the steps over the input channels.
  constexpr KW_HOST_DEVICE int steps() const { return depth_steps() * channel_steps(); }

  /// Steps whose operands are in shared memory at once.
  constexpr KW_HOST_DEVICE int buffers() const { return smaller(stages, steps() * tiles_per_block); }

  // ---- Input in shared memory ----
  /// Columns staged before the first one needed, so that copies of copy_width start aligned.
  constexpr KW_HOST_DEVICE int lead() const { return (copy_width - pad.w % copy_width) % copy_width; }
  constexpr KW_HOST_DEVICE int staged_d() const {
    return (tile.d - 1) * stride.d + (filter.d - 1) * dilation.d + 1;
  }
  constexpr KW_HOST_DEVICE int staged_h() const {
    return (tile.h - 1) * stride.h + (filter.h - 1) * dilation.h + 1;
  }
  /// Whole copies; the last may reach past the last column needed.
  constexpr KW_HOST_DEVICE int copies_w() const {
    return ceil_div(lead() + (tile.w - 1) * stride.w + (filter.w - 1) * dilation.w + 1, copy_width);
  }
  /// Column of tap `s` for the output at 0, then split by phase.
  constexpr KW_HOST_DEVICE int tap_phase(int s) const { return (lead() + s * dilation.w) % stride.w; }
  constexpr KW_HOST_DEVICE int tap_index(int s) const { return (lead() + s * dilation.w) / stride.w; }
  /// Floats that one load of a run's inputs moves.
  constexpr KW_HOST_DEVICE int load_width() const { return access_width(run); }

  /// Taps are handled in segments that share one window of inputs in registers: all taps of one phase while
  /// the window stays short, else each tap by itself.
  constexpr KW_HOST_DEVICE bool sliding() const {
    return run + (filter.w - 1) * dilation.w / stride.w <= 4 * run ||
           run + (filter.w - 1) * dilation.w / stride.w <= 12;
  }
  constexpr KW_HOST_DEVICE int segments() const { return sliding() ? stride.w : filter.w; }
  constexpr KW_HOST_DEVICE bool in_segment(int segment, int s) const {
    return sliding() ? tap_phase(s) == segment : s == segment;
  }
  constexpr KW_HOST_DEVICE bool segment_empty(int segment) const {
    for (int s = 0; s < filter.w; ++s)
      if (in_segment(segment, s)) return false;
    return true;
  }
  constexpr KW_HOST_DEVICE int segment_phase(int segment) const {
    return sliding() ? segment : tap_phase(segment);
  }
  /// First index of the window relative to the run's first output: a multiple of load_width().
  constexpr KW_HOST_DEVICE int window_begin(int segment) const {
    for (int s = 0; s < filter.w; ++s)
      if (in_segment(segment, s)) return tap_index(s) / load_width() * load_width();
    return 0;
  }
  /// One past the window's last index: a multiple of load_width().
  constexpr KW_HOST_DEVICE int window_end(int segment) const {
    int end = 0;
    for (int s = 0; s < filter.w; ++s)
      if (in_segment(segment, s)) end = round_up(tap_index(s) + run, load_width());
    return end;
  }
  constexpr KW_HOST_DEVICE int window_capacity() const {
    int capacity = load_width();
    for (int segment = 0; segment < segments(); ++segment)
      capacity = larger(capacity, window_end(segment) - window_begin(segment));
    return capacity;
  }
  /// Elements of a staged row that are congruent modulo stride.w: as many as copies write or windows read.
  constexpr KW_HOST_DEVICE int phase_length() const {
    int length = ceil_div(copies_w() * copy_width, stride.w);
    for (int segment = 0; segment < segments(); ++segment)
      length = larger(length, tile.w - run + window_end(segment));
    return round_up(length, larger(load_width(), copy_width));
  }
  /// Rows are split by their position modulo stride.h as columns are by stride.w.
  constexpr KW_HOST_DEVICE int row_phase_length() const { return ceil_div(staged_h(), stride.h); }
  constexpr KW_HOST_DEVICE int placed_h() const { return row_phase_length() * stride.h; }
  /// Where staged row `row` of a depth lies among placed_h() rows.
  constexpr KW_HOST_DEVICE int place_row(int row) const {
    return row % stride.h * row_phase_length() + row / stride.h;
  }
  /// Where column `column` of a staged row lies in it.
  constexpr KW_HOST_DEVICE int place_column(int column) const {
    return column % stride.w * phase_length() + column / stride.w;
  }
  /// The phases, then what makes the threads of the next row continue in the banks where this row's end.
  constexpr KW_HOST_DEVICE int row_pitch() const {
    const int length = stride.w * phase_length();
    for (int pitch = length; pitch < length + 32; pitch += larger(load_width(), copy_width))
      if ((pitch * pixels.h - lanes().w * run) % 32 == 0) return pitch;
    return length;
  }
  constexpr KW_HOST_DEVICE int depth_pitch() const { return placed_h() * row_pitch(); }
  constexpr KW_HOST_DEVICE int channel_pitch() const { return staged_d() * depth_pitch(); }
  constexpr KW_HOST_DEVICE int input_stage() const {
    return round_up(channels_per_step * channel_pitch(), 4);
  }
  // ---- Weights, packed as [group][channel block][input channel][t][r][s][channel of the block] ----
  constexpr KW_HOST_DEVICE int weights_per_input() const { return taps() * channels_per_block; }
  constexpr KW_HOST_DEVICE int weight_stage() const {
    return round_up(channels_per_step * weights_per_input(), 4);
  }
  /// Weights do not depend on the depth tile: with one step over the channels they are staged once.
  constexpr KW_HOST_DEVICE int weight_stages() const {
    return !weights_shared ? 0 : channel_steps() == 1 ? 1 : buffers();
  }
  constexpr KW_HOST_DEVICE long long packed_block() const {
    return static_cast<long long>(channel_steps()) * weight_stage();
  }
  constexpr KW_HOST_DEVICE long long packed_elements() const {
    return packed_block() * groups * channel_blocks();
  }

  // ---- Shared memory: the operands; the epilogue's takes their place unless the next tile's are on the way
  // ----
  constexpr KW_HOST_DEVICE int staging_elements() const {
    return weight_stages() * weight_stage() + buffers() * input_stage();
  }
  constexpr KW_HOST_DEVICE int epilogue_begin() const { return tiles_per_block > 1 ? staging_elements() : 0; }
  /// Positions of a tile after the reduction over depth.
  constexpr KW_HOST_DEVICE int result_positions() const {
    return (whole_depth ? 1 : tile.d) * tile.h * tile.w;
  }
  constexpr KW_HOST_DEVICE int softmax_elements() const { return channels_per_block * result_positions(); }
  constexpr KW_HOST_DEVICE int norm_elements() const { return channels_per_block * (pixel_threads() + 1); }
  constexpr KW_HOST_DEVICE int shared_elements(int epilogue_elements) const {
    return larger(staging_elements(), epilogue_begin() + epilogue_elements);
  }
};

}  // namespace knobwise::direct_conv

#endif
