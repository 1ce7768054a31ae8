// Where the direct convolution keeps every input, weight and output: one description for the device source and
// the host.
//
// Compiles as C++17 on the host and under NVRTC; includes nothing. Lengths are elements unless they say bytes.
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
  Triple tile;        ///< Index of the output tile.
};

constexpr KW_HOST_DEVICE int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr KW_HOST_DEVICE int round_up(int a, int b) { return ceil_div(a, b) * b; }
constexpr KW_HOST_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
constexpr KW_HOST_DEVICE int larger(int a, int b) { return a > b ? a : b; }
/// Widest of 4, 2, 1 that divides `a`: how many floats one access may move.
constexpr KW_HOST_DEVICE int access_width(int a) { return a % 4 == 0 ? 4 : a % 2 == 0 ? 2 : 1; }

/// A convolution and a register, thread and block tiling of it. Obtain derived figures from the members only.
///
/// A block computes channels_per_block channels of tile.d x tile.h x tile.w positions. A thread computes
/// channels_per_thread channels of pixels.d x pixels.h x pixels.w positions: neighbours along d and h; along w
/// runs of `run` neighbours, the runs lanes().w * run apart, so that neighbouring threads touch neighbouring
/// memory. Input is staged in shared memory for channels_per_step input channels at a time, each row split by
/// its position modulo stride.w, so that a thread reads neighbours whatever the stride.
struct Geometry {
  // The problem.
  int samples, input_channels, output_channels, groups;
  Triple in, filter, stride, pad, dilation, out;
  // The tiling.
  Triple tile, pixels;
  int run;                  ///< Neighbouring positions along w.
  int copy_width;           ///< Floats a copy into shared memory moves: 1, 2 or 4.
  int channels_per_block, channels_per_thread;
  int channels_per_step;    ///< Input channels staged together.
  int pixel_lanes;          ///< Neighbouring threads that share their channels.
  int stages;               ///< Input tiles in flight.
  int weights_shared;       ///< 1: weights are staged with the input; 0: read through the cache.
  int channels_first;       ///< 1: neighbouring blocks differ in channels; 0: in position.
  int whole_depth;          ///< 1: a block covers all output depths, pixels.d at a time.

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
  constexpr KW_HOST_DEVICE int channel_steps() const { return ceil_div(inputs_per_group(), channels_per_step); }
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
  constexpr KW_HOST_DEVICE int channel_thread(int thread) const {
    return thread / pixel_lanes % channel_threads();
  }
  constexpr KW_HOST_DEVICE int pixel_thread(int thread) const {
    return thread / (pixel_lanes * channel_threads()) * pixel_lanes + thread % pixel_lanes;
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
  /// Register of a thread's position (d, h, w).
  constexpr KW_HOST_DEVICE int pixel_register(int d, int h, int w) const {
    return (d * pixels.h + h) * pixels.w + w;
  }
  /// True if the knobs fit together: every quotient above is exact.
  constexpr KW_HOST_DEVICE bool consistent() const {
    return channels_per_block % channels_per_thread == 0 && pixels.w % run == 0 && tile.d % pixels.d == 0 &&
           tile.h % pixels.h == 0 && tile.w % pixels.w == 0 && pixel_threads() % pixel_lanes == 0 &&
           (copy_width == 1 || (stride.w == 1 && in.w % copy_width == 0 &&
                                                              tile.w % copy_width == 0)) &&
           (whole_depth == 0 || tile.d == pixels.d);
  }

  // ---- Blocks ----
  constexpr KW_HOST_DEVICE Triple tiles() const {
    return {whole_depth ? 1 : ceil_div(out.d, tile.d), ceil_div(out.h, tile.h), ceil_div(out.w, tile.w)};
  }
  constexpr KW_HOST_DEVICE long long tiles_per_sample() const {
    return static_cast<long long>(tiles().d) * tiles().h * tiles().w;
  }
  constexpr KW_HOST_DEVICE long long blocks() const {
    return tiles_per_sample() * samples * groups * channel_blocks();
  }
  constexpr KW_HOST_DEVICE BlockOrigin origin(unsigned block) const {
    const unsigned channel_count = static_cast<unsigned>(groups * channel_blocks());
    const unsigned tile_count = static_cast<unsigned>(tiles_per_sample());
    const unsigned sample = block / (channel_count * tile_count);
    const unsigned rest = block % (channel_count * tile_count);
    const unsigned channel = channels_first ? rest % channel_count : rest / tile_count;
    const unsigned tile_index = channels_first ? rest / channel_count : rest % tile_count;
    const unsigned width = static_cast<unsigned>(tiles().w), height = static_cast<unsigned>(tiles().h);
    return {static_cast<int>(sample), static_cast<int>(channel) / channel_blocks(),
            static_cast<int>(channel) % channel_blocks(),
            Triple{static_cast<int>(tile_index / (width * height)),
                   static_cast<int>(tile_index / width % height), static_cast<int>(tile_index % width)}};
  }
  /// Depth tiles that a block goes through one after another.
  constexpr KW_HOST_DEVICE int depth_steps() const { return whole_depth ? ceil_div(out.d, tile.d) : 1; }
  /// Stages that a block goes through: depth tiles, and within each the steps over the input channels.
  constexpr KW_HOST_DEVICE int steps() const { return depth_steps() * channel_steps(); }

  // ---- Input in shared memory ----
  /// Columns staged before the first one needed, so that copies of copy_width start aligned.
  constexpr KW_HOST_DEVICE int lead() const { return (copy_width - pad.w % copy_width) % copy_width; }
  constexpr KW_HOST_DEVICE int staged_d() const { return (tile.d - 1) * stride.d + (filter.d - 1) * dilation.d + 1; }
  constexpr KW_HOST_DEVICE int staged_h() const { return (tile.h - 1) * stride.h + (filter.h - 1) * dilation.h + 1; }
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
    return run + (filter.w - 1) * dilation.w / stride.w <= 4 * run || run + (filter.w - 1) * dilation.w / stride.w <= 12;
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
  constexpr KW_HOST_DEVICE int segment_phase(int segment) const { return sliding() ? segment : tap_phase(segment); }
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
  /// Distance of the rows that neighbouring threads along h start from.
  constexpr KW_HOST_DEVICE int lane_rows() const { return pixels.h * stride.h; }
  /// phase_length() plus what makes threads of the next row continue in the banks where this row's end.
  constexpr KW_HOST_DEVICE int phase_pitch() const {
    const int step = larger(load_width(), copy_width);
    const int wanted = lanes().w * run % 32;
    for (int pitch = phase_length(); pitch < phase_length() + 32; pitch += step)
      if (pitch * stride.w * lane_rows() % 32 == wanted) return pitch;
    return phase_length();
  }
  constexpr KW_HOST_DEVICE int row_pitch() const { return stride.w * phase_pitch(); }
  constexpr KW_HOST_DEVICE int staged_rows() const { return staged_d() * staged_h(); }
  constexpr KW_HOST_DEVICE int channel_pitch() const { return staged_rows() * row_pitch(); }
  constexpr KW_HOST_DEVICE int input_stage() const { return round_up(channels_per_step * channel_pitch(), 4); }
  /// Where column `column` of a staged row lies in it.
  constexpr KW_HOST_DEVICE int place(int column) const {
    return column % stride.w * phase_pitch() + column / stride.w;
  }

  // ---- Weights, packed as [group][channel block][input channel][t][r][s][channel of the block] ----
  constexpr KW_HOST_DEVICE int weights_per_input() const { return taps() * channels_per_block; }
  constexpr KW_HOST_DEVICE int weight_stage() const { return round_up(channels_per_step * weights_per_input(), 4); }
  /// Weights do not depend on the depth tile: with one step over the channels they are staged once.
  constexpr KW_HOST_DEVICE int weight_stages() const {
    return !weights_shared ? 0 : channel_steps() == 1 ? 1 : stages;
  }
  constexpr KW_HOST_DEVICE long long packed_block() const {
    return static_cast<long long>(channel_steps()) * weight_stage();
  }
  constexpr KW_HOST_DEVICE long long packed_elements() const {
    return packed_block() * groups * channel_blocks();
  }

  // ---- Shared memory: the operands, then what the epilogue needs in their place ----
  constexpr KW_HOST_DEVICE int staging_elements() const {
    return weight_stages() * weight_stage() + stages * input_stage();
  }
  /// Positions of a tile after the reduction over depth.
  constexpr KW_HOST_DEVICE int result_positions() const {
    return (whole_depth ? 1 : tile.d) * tile.h * tile.w;
  }
  constexpr KW_HOST_DEVICE int softmax_elements() const { return channels_per_block * result_positions(); }
  constexpr KW_HOST_DEVICE int norm_elements() const { return channels_per_block * (pixel_threads() + 1); }
};

}  // namespace knobwise::direct_conv

#endif
