// How the float64 reference's convolution is cut into blocks and threads. Compiles on the host and under
// NVRTC; includes nothing.
#pragma once

#ifdef __CUDACC_RTC__
#define KW_TILE_FN __host__ __device__
#else
#define KW_TILE_FN
#endif

namespace knobwise {

/// A block's tile of one group's output channels x output positions.
struct ReferenceTile {
  static constexpr int kThreads = 256;
  static constexpr int kPositionsPerThread = 4;
  int channels_per_thread = 1;
  int channel_threads = 1;  ///< The rest of the threads lie along positions.

  constexpr KW_TILE_FN int position_threads() const { return kThreads / channel_threads; }
  constexpr KW_TILE_FN int channels() const { return channels_per_thread * channel_threads; }
  constexpr KW_TILE_FN int positions() const { return kPositionsPerThread * position_threads(); }
};

/// Largest power of two that is above neither.
constexpr KW_TILE_FN int power_of_two_within(int a, int b) {
  int result = 1;
  while (2 * result <= a && 2 * result <= b) result *= 2;
  return result;
}

/// The tile for `group_outputs` output channels in a group.
constexpr KW_TILE_FN ReferenceTile reference_tile(int group_outputs) {
  ReferenceTile tile;
  tile.channels_per_thread = power_of_two_within(8, group_outputs);
  const int threads_wanted = (group_outputs + tile.channels_per_thread - 1) / tile.channels_per_thread;
  while (tile.channel_threads < 16 && tile.channel_threads < threads_wanted) tile.channel_threads *= 2;
  return tile;
}

}  // namespace knobwise
