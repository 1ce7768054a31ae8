#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <set>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

using implicit_gemm_sm90::BlockOrigin;
using implicit_gemm_sm90::Geometry;
using implicit_gemm_sm90::Triple;

/// The tilings of the default configuration and 25 others of a problem.
class WarpgroupTilingTest : public testing::TestWithParam<const char*> {
 protected:
  void for_each_tiling(const std::function<void(const Geometry&)>& check) {
    const Problem problem = Problem::parse(GetParam());
    const KernelFamily& family = cuda_implicit_gemm_sm90_family();
    if (const auto reason = family.unsupported_reason(problem, cuda_target_info(90))) GTEST_SKIP() << *reason;
    const BoundSpace space = bind_space(family, problem, cuda_target_info(90));
    for (const Configuration& configuration : some_configurations(space, 25, 7)) {
      SCOPED_TRACE(configuration.to_json());
      check(implicit_gemm_sm90_tiling(problem, configuration));
      if (HasFatalFailure()) return;
    }
  }
};

/// Adds one to the count of every output position of a tile that a warpgroup's column stands for.
void count_positions(const Geometry& g, Triple tile, std::vector<int>& counts) {
  for (int group = 0; group < g.column_groups; ++group)
    for (int column = 0; column < g.columns(); ++column) {
      const int row = g.tile_h == 1 ? 0 : column / g.row_pitch();
      const int w = column - row * g.row_pitch() + group * g.columns();
      if (w >= g.tile_w || row >= g.tile_h) continue;
      const int h = tile.h * g.tile_h + row, out_w = tile.w * g.tile_w + w;
      if (h < g.out.h && out_w < g.out.w)
        ++counts[static_cast<std::size_t>((tile.d * g.out.h + h) * g.out.w + out_w)];
    }
}

TEST_P(WarpgroupTilingTest, CoversEveryPositionOfASampleOnce) {
  for_each_tiling([](const Geometry& g) {
    std::vector<int> counts(static_cast<std::size_t>(g.out.d) * g.out.h * g.out.w);
    for (int tile = 0; tile < g.tiles_per_sample(); ++tile) count_positions(g, g.tile_at(tile), counts);
    EXPECT_THAT(counts, testing::Each(1));
  });
}

TEST_P(WarpgroupTilingTest, GivesEveryTileOfEverySampleAndChannelToOneBlock) {
  for_each_tiling([](const Geometry& g) {
    std::set<std::array<int, 4>> seen;
    for (long long block = 0; block < g.blocks(); ++block) {
      const BlockOrigin origin = g.origin(static_cast<unsigned>(block));
      for (int i = 0; i < g.block_tiles(origin.first_tile); ++i)
        ASSERT_TRUE(
            seen.insert({origin.sample, origin.group, origin.channel_block, origin.first_tile + i}).second);
    }
    EXPECT_EQ(static_cast<long long>(seen.size()),
              g.tiles_per_sample() * g.samples * g.groups * g.channel_blocks());
  });
}

TEST_P(WarpgroupTilingTest, TakesEveryChannelAndTapOnce) {
  for_each_tiling([](const Geometry& g) {
    std::set<std::array<int, 4>> seen;
    for (int unit = 0; unit < g.units(); ++unit)
      for (int chunk = 0; chunk < g.chunks(); ++chunk)
        for (int e = 0; e < g.chunk_elements; ++e) {
          const int in_step = g.chunk_plane(chunk) * g.chunk_elements + e;
          const int channel = g.unit_step(unit) * g.channels_per_step + in_step;
          if (in_step >= g.channels_per_step || channel >= g.inputs_per_group()) continue;
          ASSERT_TRUE(seen.insert({channel, g.unit_t(unit), g.unit_r(unit), g.chunk_tap(chunk)}).second);
        }
    EXPECT_EQ(seen.size(),
              static_cast<std::size_t>(g.inputs_per_group()) * g.filter.d * g.filter.h * g.filter.w);
  });
}

TEST_P(WarpgroupTilingTest, ReadsWindowsOfWhatWasStaged) {
  for_each_tiling([](const Geometry& g) {
    for (int k = 0; k < g.k_steps(); ++k)
      ASSERT_LE(g.chunk_entry(2 * k), g.chunk_entry(2 * k + 1)) << "the second chunk is not before the first";
    for (int chunk = 0; chunk < g.chunks(); ++chunk)
      for (int row = 0; row < g.tile_h; ++row)
        for (int w = 0; w < g.tile_w; ++w) {
          const int entry = g.chunk_entry(chunk) + row * g.row_pitch() + w;
          const int staged = g.chunk_plane(chunk) * g.plane_pitch() + row * g.row_pitch() + g.lead() + w +
                             g.chunk_tap(chunk) * g.dilation.w;
          ASSERT_EQ(entry, staged);
          ASSERT_LT(g.lead() + w + g.chunk_tap(chunk) * g.dilation.w, g.row_pitch());
        }
    const int last = g.chunk_entry(g.chunks() - 1) + g.column_groups * g.columns() - 1;
    ASSERT_LT(last, g.planes() * g.plane_pitch()) << "columns that are dropped still lie in the stage";
  });
}

TEST_P(WarpgroupTilingTest, HasTheCopyEngineBringEveryEntryOnce) {
  for_each_tiling([](const Geometry& g) {
    if (!g.copied) return;
    ASSERT_EQ(g.lead(), 0) << "copies begin with the first column";
    ASSERT_LE(g.copied_width(), 256);
    ASSERT_LE(g.spanned_rows(), 256);
    std::vector<int> brought(static_cast<std::size_t>(g.planes()) * g.plane_pitch());
    for (int plane = 0; plane < g.planes(); ++plane)
      for (int copy = 0; copy < g.copies(); ++copy) {
        const int first = plane * g.plane_pitch() + copy * g.copied_width();
        ASSERT_EQ(first * 16 % 128, 0);
        for (int i = 0; i < g.tile_h * g.copied_width(); ++i)
          ++brought.at(static_cast<std::size_t>(first + i));
      }
    int entries = 0;
    for (int plane = 0; plane < g.planes(); ++plane)
      for (int i = 0; i < g.plane_pitch(); ++i) {
        const int times = brought[static_cast<std::size_t>(plane * g.plane_pitch() + i)];
        ASSERT_LE(times, 1);
        ASSERT_GE(times, i < g.staged() ? 1 : 0);
        entries += times;
      }
    EXPECT_EQ(entries * 16, g.copied_bytes());
    EXPECT_EQ((g.stages_begin() + g.weight_bytes()) % 128, 0);
    EXPECT_EQ(g.stage_bytes() % 128, 0);
  });
}

TEST_P(WarpgroupTilingTest, KeepsThreadsThatDepositTogetherInBanksOfTheirOwn) {
  for_each_tiling([](const Geometry& g) {
    if (g.copied || !g.channels_last || 8 % g.planes() != 0) return;
    std::set<int> banks;
    for (int thread = 0; thread < 8; ++thread)
      banks.insert((thread % g.planes() * g.plane_pitch() + thread / g.planes()) % 8);
    EXPECT_EQ(banks.size(), 8u);
  });
}

TEST_P(WarpgroupTilingTest, StaysWithinTheLimitsOfTheDevice) {
  const Problem problem = Problem::parse(GetParam());
  const DeviceInfo device = cuda_target_info(90);
  for_each_tiling([&](const Geometry& g) {
    ASSERT_TRUE(g.consistent());
    EXPECT_LE(g.shared_bytes(false), device.shared_bytes_per_block);
    EXPECT_LE(g.threads(), device.max_threads_per_block);
    EXPECT_EQ(g.columns() % 8, 0);
    EXPECT_EQ(g.weight_bytes() % 16, 0);
    EXPECT_EQ(g.out.w % g.store_width(), 0);
    EXPECT_LT(g.plane_pitch() * 16, 1 << 18) << "a descriptor's distance has 14 bits of 16 bytes";
  });
}

INSTANTIATE_TEST_SUITE_P(Exact, WarpgroupTilingTest, testing::ValuesIn(kExactProblems));
INSTANTIATE_TEST_SUITE_P(Matrix, WarpgroupTilingTest, testing::ValuesIn(kExactMatrixProblems));
INSTANTIATE_TEST_SUITE_P(Rounded, WarpgroupTilingTest, testing::ValuesIn(kRoundedProblems));

}  // namespace
}  // namespace knobwise
