#include "kernels/cuda/direct_conv_geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/cuda/cuda_backend.h"
#include "tests/cuda_direct_conv/problems.h"

namespace knobwise {
namespace {

using direct_conv::BlockOrigin;
using direct_conv::Geometry;
using direct_conv::Position;
using direct_conv::Triple;

/// The tilings of the default configuration and 25 others of a problem.
class TilingTest : public testing::TestWithParam<const char*> {
 protected:
  void for_each_tiling(const std::function<void(const Geometry&)>& check) {
    const Problem problem = Problem::parse(GetParam());
    const BoundSpace space = bind_space(cuda_direct_conv_family(), problem, cuda_target_info(90));
    for (const Configuration& configuration : some_configurations(space, 25, 7)) {
      SCOPED_TRACE(configuration.to_json());
      check(direct_conv_tiling(problem, configuration));
      if (HasFatalFailure()) return;
    }
  }
};

/// Calls `visit(thread, first tile position)` for every tile that a block goes through, depth tiles included.
void for_each_tile(const Geometry& g, const BlockOrigin& origin, const std::function<void(Triple)>& visit) {
  for (int i = 0; i < g.block_tiles(origin.first_tile); ++i) {
    Triple tile = g.tile_at(origin.first_tile + i);
    for (int depth = 0; depth < g.depth_steps(); ++depth) {
      if (g.whole_depth) tile.d = depth;
      visit(tile);
    }
  }
}

/// Adds one to the count of every output that a thread computes of a tile.
void count_outputs(const Geometry& g, const BlockOrigin& origin, Triple tile, int thread,
                   std::vector<int>& counts) {
  for (int p = 0; p < g.pixels_per_thread(); ++p) {
    const Position at = g.position(g.pixel_thread(thread), p);
    const int d = tile.d * g.tile.d + at.d, h = tile.h * g.tile.h + at.h, w = tile.w * g.tile.w + at.w;
    if (d >= g.out.d || h >= g.out.h || w >= g.out.w) continue;
    for (int j = 0; j < g.channels_per_thread; ++j) {
      const int channel =
          origin.channel_block * g.channels_per_block + g.channel(g.channel_thread(thread), j);
      if (channel >= g.outputs_per_group()) continue;
      const int k = origin.group * g.outputs_per_group() + channel;
      ++counts[static_cast<std::size_t>(
          (((static_cast<std::int64_t>(origin.sample) * g.output_channels + k) * g.out.d + d) * g.out.h + h) *
              g.out.w +
          w)];
    }
  }
}

TEST_P(TilingTest, MapsBlocksThreadsAndRegistersOneToOneOntoTheOutput) {
  for_each_tiling([](const Geometry& g) {
    std::vector<int> counts(static_cast<std::size_t>(g.samples) * g.output_channels * g.out.d * g.out.h *
                            g.out.w);
    for (long long block = 0; block < g.blocks(); ++block) {
      const BlockOrigin origin = g.origin(static_cast<unsigned>(block));
      for_each_tile(g, origin, [&](Triple tile) {
        for (int thread = 0; thread < g.threads(); ++thread) count_outputs(g, origin, tile, thread, counts);
      });
    }
    EXPECT_THAT(counts, testing::Each(1));
  });
}

TEST_P(TilingTest, GivesEachStagedColumnAndRowAPlaceOfItsOwn) {
  for_each_tiling([](const Geometry& g) {
    std::set<int> columns, rows;
    for (int column = 0; column < g.copies_w() * g.copy_width; ++column) {
      columns.insert(g.place_column(column));
      ASSERT_LT(g.place_column(column), g.row_pitch());
    }
    for (int row = 0; row < g.staged_h(); ++row) {
      rows.insert(g.place_row(row));
      ASSERT_LT(g.place_row(row), g.placed_h());
    }
    EXPECT_EQ(columns.size(), static_cast<std::size_t>(g.copies_w() * g.copy_width));
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(g.staged_h()));
  });
}

TEST_P(TilingTest, ReadsForEachTapTheColumnThatWasStagedForIt) {
  for_each_tiling([](const Geometry& g) {
    for (int s = 0; s < g.filter.w; ++s) {
      int segments = 0;
      for (int segment = 0; segment < g.segments(); ++segment) {
        if (!g.in_segment(segment, s)) continue;
        ++segments;
        ASSERT_LE(g.window_begin(segment), g.tap_index(s));
        ASSERT_GE(g.window_end(segment), g.tap_index(s) + g.run);
        ASSERT_EQ(g.segment_phase(segment), g.tap_phase(s));
      }
      ASSERT_EQ(segments, 1) << "tap " << s;
      for (int w = 0; w < g.tile.w; ++w) {
        const int column = g.lead() + w * g.stride.w + s * g.dilation.w;
        ASSERT_LT(column, g.copies_w() * g.copy_width);
        ASSERT_EQ(g.place_column(column), g.tap_phase(s) * g.phase_length() + w + g.tap_index(s));
      }
    }
    for (int r = 0; r < g.filter.h; ++r)
      for (int h = 0; h < g.tile.h; ++h)
        ASSERT_EQ(g.place_row(h * g.stride.h + r * g.dilation.h), g.place_row(r * g.dilation.h) + h);
  });
}

TEST_P(TilingTest, KeepsReadsInsideTheStagedTile) {
  for_each_tiling([](const Geometry& g) {
    const int last_run = g.tile.w - g.run;
    for (int segment = 0; segment < g.segments(); ++segment) {
      if (g.segment_empty(segment)) continue;
      ASSERT_LE(last_run + g.window_end(segment), g.phase_length());
    }
    ASSERT_LT((g.tile.d - 1) * g.stride.d + (g.filter.d - 1) * g.dilation.d, g.staged_d());
    ASSERT_LT((g.tile.h - 1) * g.stride.h + (g.filter.h - 1) * g.dilation.h, g.staged_h());
    ASSERT_LE(g.channels_per_step * g.channel_pitch(), g.input_stage());
    ASSERT_LE(g.channels_per_step * g.weights_per_input(), g.weight_stage());
  });
}

TEST_P(TilingTest, AlignsEveryVectorAccess) {
  for_each_tiling([](const Geometry& g) {
    ASSERT_TRUE(g.consistent());
    EXPECT_EQ(g.weight_stage() % 4, 0);
    EXPECT_EQ(g.input_stage() % 4, 0);
    EXPECT_EQ(g.channels_per_block % g.channel_vector(), 0);
    for (const int width : {g.load_width(), g.copy_width}) {
      EXPECT_EQ(g.phase_length() % width, 0);
      EXPECT_EQ(g.row_pitch() % width, 0);
    }
    EXPECT_EQ(g.run % g.load_width(), 0);
    EXPECT_EQ((g.tile.w * g.stride.w) % g.copy_width, 0);
    EXPECT_EQ((g.lead() + g.pad.w) % g.copy_width, 0);
    for (int segment = 0; segment < g.segments(); ++segment)
      EXPECT_EQ(g.window_begin(segment) % g.load_width(), 0);
  });
}

TEST_P(TilingTest, StaysWithinTheLimitsOfTheDevice) {
  const DeviceInfo device = cuda_target_info(90);
  const Problem problem = Problem::parse(GetParam());
  const BoundSpace space = bind_space(cuda_direct_conv_family(), problem, device);
  for (const Configuration& configuration : some_configurations(space, 100, 11)) {
    const KernelInstance instance = cuda_direct_conv_family().instantiate(problem, configuration, device);
    const KernelLaunch& launch = instance.run.front();
    EXPECT_LE(launch.dynamic_shared_bytes, device.shared_bytes_per_block) << configuration.to_json();
    EXPECT_LE(launch.block[0], static_cast<std::uint32_t>(device.max_threads_per_block));
    EXPECT_GE(launch.grid[0], 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Exact, TilingTest, testing::ValuesIn(kExactProblems));
INSTANTIATE_TEST_SUITE_P(Rounded, TilingTest, testing::ValuesIn(kRoundedProblems));

TEST(Origin, CoversBlocksBeyond32BitElements) {
  const Problem problem = Problem::parse("conv2d n=4096 c=8 h=1024 w=1024 k=8 r=3 s=3 pad=1");
  const BoundSpace space = bind_space(cuda_direct_conv_family(), problem, cuda_target_info(90));
  const Geometry g = direct_conv_tiling(problem, space.configuration(space.default_index()));
  const BlockOrigin last = g.origin(static_cast<unsigned>(g.blocks() - 1));
  EXPECT_EQ(last.sample, 4095);
  EXPECT_EQ(last.channel_block, g.channel_blocks() - 1);
  EXPECT_EQ(last.first_tile / g.tiles_per_block, g.tile_groups() - 1);
}

}  // namespace
}  // namespace knobwise
