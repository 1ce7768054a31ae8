#include "kernels/cuda/implicit_gemm_geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "kernels/cuda/cuda_backend.h"
#include "tests/cuda_implicit_gemm/problems.h"

namespace knobwise {
namespace {

using implicit_gemm::BlockOrigin;
using implicit_gemm::Geometry;
using implicit_gemm::TilePlace;
using implicit_gemm::Triple;

/// The tilings of the default configuration and 25 others of a problem.
class TilingTest : public testing::TestWithParam<const char*> {
 protected:
  void for_each_tiling(const std::function<void(const Geometry&)>& check) {
    const Problem problem = Problem::parse(GetParam());
    const BoundSpace space = bind_space(cuda_implicit_gemm_family(), problem, cuda_target_info(90));
    for (const Configuration& configuration : some_configurations(space, 25, 7)) {
      SCOPED_TRACE(configuration.to_json());
      // Few multiprocessors, so that blocks of several tiles do take several.
      for (const int multiprocessors : {1, 5})
        check(implicit_gemm_tiling(problem, configuration, multiprocessors));
      if (HasFatalFailure()) return;
    }
  }
};

/// Adds one to the count of every output that a lane computes of a tile.
void count_outputs(const Geometry& g, const BlockOrigin& origin, const TilePlace& place, int thread,
                   std::vector<int>& counts) {
  const int warp = thread / 32, lane = thread % 32;
  const Triple tile = place.tile;
  const int position_warp = warp % g.position_warps(), channel_warp = warp / g.position_warps();
  for (int p = 0; p < g.lane_positions(); ++p) {
    const int position = g.result_position(position_warp, lane, p);
    if (position >= g.positions()) continue;
    const Triple at = g.position_at(position);
    const int d = tile.d * g.tile.d + at.d, h = tile.h * g.tile.h + at.h, w = tile.w * g.tile.w + at.w;
    if (d >= g.out.d || h >= g.out.h || w >= g.out.w) continue;
    for (int c = 0; c < g.lane_channels(); ++c) {
      const int channel =
          origin.channel_block * g.channels_per_block + g.result_channel(channel_warp, lane, c);
      if (channel >= g.outputs_per_group()) continue;
      const int k = origin.group * g.outputs_per_group() + channel;
      ++counts[static_cast<std::size_t>(
          (((static_cast<std::int64_t>(place.sample) * g.output_channels + k) * g.out.d + d) * g.out.h + h) *
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
      for (int i = 0; i < g.block_tiles(origin); ++i)
        for (int depth = 0; depth < (g.whole_depth ? g.out.d : 1); ++depth) {
          TilePlace place = g.tile_at(origin, i);
          if (g.whole_depth) place.tile.d = depth;
          for (int thread = 0; thread < g.consumers(); ++thread)
            count_outputs(g, origin, place, thread, counts);
        }
    }
    // Every part of the reduction computes every output.
    EXPECT_THAT(counts, testing::Each(g.split_k));
  });
}

TEST_P(TilingTest, PartsTakeEveryStepOfTheReductionOnce) {
  for_each_tiling([](const Geometry& g) {
    int next = 0;
    for (int part = 0; part < g.split_k; ++part) {
      EXPECT_EQ(g.part_begin(part), next);
      EXPECT_GT(g.part_end(part), next);
      next = g.part_end(part);
    }
    EXPECT_EQ(next, g.channel_steps());
  });
}

TEST_P(TilingTest, TakesEveryElementOfTheReductionOnce) {
  for_each_tiling([](const Geometry& g) {
    std::set<std::array<int, 4>> seen;
    int valid = 0;
    for (int v = 0; v < g.vectors(); ++v)
      for (int e = 0; e < g.vector_elements(); ++e) {
        const Triple tap = g.element_tap(v, e);
        const int channel = g.element_channel(v, e);
        if (channel >= g.channels_per_step || tap.w >= g.filter.w) continue;
        for (int slice = 0; slice < g.slices(); ++slice) {
          ++valid;
          seen.insert({channel, tap.d + g.column_depth_tap(slice * g.channels_per_block), tap.h, tap.w});
        }
      }
    const std::size_t all =
        static_cast<std::size_t>(g.channels_per_step) * g.filter.d * g.filter.h * g.filter.w;
    EXPECT_EQ(seen.size(), all);
    EXPECT_EQ(static_cast<std::size_t>(valid), all);
  });
}

TEST_P(TilingTest, GivesEverySliceTheDepthTapOfItsOutput) {
  for_each_tiling([](const Geometry& g) {
    for (int phase = 0; phase < g.slices(); ++phase)
      for (int slice = 0; slice < g.slices(); ++slice) {
        const int column = g.phase_column(phase) + slice * g.channels_per_block;
        ASSERT_LE(column + g.channels_per_block, g.weight_columns());
        EXPECT_EQ(g.column_depth_tap(column), (phase - slice + g.slices()) % g.slices());
      }
  });
}

TEST_P(TilingTest, ReadsForEachTapTheEntryThatWasStagedForIt) {
  for_each_tiling([](const Geometry& g) {
    for (int v = 0; v < g.vectors(); ++v) {
      const Triple tap = g.element_tap(v, 0);
      for (int position = 0; position < g.positions(); ++position) {
        const Triple at = g.position_at(position);
        const int d = at.d * g.stride.d + tap.d * g.dilation.d, h = at.h * g.stride.h + tap.h * g.dilation.h;
        const int w = at.w * g.stride.w + tap.w * g.dilation.w;
        ASSERT_EQ(w % g.unit(), 0);
        ASSERT_LT(d, g.staged_d());
        ASSERT_LT(h, g.staged_h());
        ASSERT_LT(g.lead() + w / g.unit(), g.staged_w());
        ASSERT_EQ(g.position_entry(at) + g.vector_offset(v), g.vector_plane(v) * g.plane_pitch() +
                                                                 d * g.depth_pitch() + h * g.row_pitch() +
                                                                 g.lead() + w / g.unit());
      }
    }
  });
}

TEST_P(TilingTest, AlignsEveryFetch) {
  for_each_tiling([](const Geometry& g) {
    ASSERT_TRUE(g.consistent());
    EXPECT_EQ(g.staged_w() % g.fetch_width, 0);
    for (int tile = 0; tile < std::min(3, g.tiles().w); ++tile)
      EXPECT_EQ((tile * g.tile.w * g.stride.w) % g.fetch_width, 0);
    EXPECT_EQ((g.lead() + g.pad.w) % g.fetch_width, 0);
    EXPECT_EQ(g.weight_step_bytes() % 16, 0);
    EXPECT_EQ(g.weights_begin() % 128, 0);
    EXPECT_EQ(g.input_begin() % 16, 0);
  });
}

TEST_P(TilingTest, GivesEveryBufferTwoBarriersOfItsOwn) {
  for_each_tiling([](const Geometry& g) {
    EXPECT_EQ(g.barriers(), g.producer_warps > 0 ? 2 * g.input_buffers() : 0);
    EXPECT_EQ(g.barriers_begin() % 8, 0);
    EXPECT_GE(g.barriers_begin(), 4 * g.k_steps() * static_cast<int>(sizeof(int)));  // the vectors' offsets
    EXPECT_GE(g.weights_begin(), g.barriers_begin() + 8 * g.barriers());
  });
}

TEST_P(TilingTest, CountsACycleForEveryFurtherEntryOfABank) {
  for_each_tiling([](const Geometry& g) {
    const int lanes = 128 / g.entry_bytes();
    for (int step = 0; step < std::min(3, g.k_steps()); ++step) {
      int extra = 0;
      for (int first = 0; first < 32; first += lanes) {
        std::map<int, std::set<int>> banks;
        for (int lane = first; lane < first + lanes; ++lane) {
          const int entry = g.lane_entry(step, 0, lane);
          banks[entry % lanes].insert(entry);
        }
        std::size_t most = 0;
        for (const auto& [bank, entries] : banks) most = std::max(most, entries.size());
        extra += static_cast<int>(most) - 1;
      }
      EXPECT_EQ(g.conflicts(step, 0), extra);
    }
  });
}

TEST_P(TilingTest, StaysWithinTheLimitsOfTheDevice) {
  const DeviceInfo device = cuda_target_info(90);
  const Problem problem = Problem::parse(GetParam());
  const BoundSpace space = bind_space(cuda_implicit_gemm_family(), problem, device);
  for (const Configuration& configuration : some_configurations(space, 100, 11)) {
    const KernelInstance instance = cuda_implicit_gemm_family().instantiate(problem, configuration, device);
    const KernelLaunch& launch = instance.run.front();
    EXPECT_LE(launch.dynamic_shared_bytes, device.shared_bytes_per_block) << configuration.to_json();
    EXPECT_LE(launch.block[0], static_cast<std::uint32_t>(device.max_threads_per_block));
    EXPECT_GE(launch.grid[0], 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Exact, TilingTest, testing::ValuesIn(kExactProblems));
INSTANTIATE_TEST_SUITE_P(Matrix, TilingTest, testing::ValuesIn(kExactMatrixProblems));
INSTANTIATE_TEST_SUITE_P(Rounded, TilingTest, testing::ValuesIn(kRoundedProblems));

// Its two passes load ahead, two instructions at most.
TEST(ErrorsInE5m2, NeverHaveAPassOfOneInstruction) {
  int found = 0;
  for (const char* line : kExactProblems) {
    const Problem problem = Problem::parse(line);
    const DeviceInfo device = cuda_target_info(90);
    if (cuda_implicit_gemm_family().unsupported_reason(problem, device)) continue;
    const BoundSpace space = bind_space(cuda_implicit_gemm_family(), problem, device);
    for (const Configuration& configuration : configurations_in(space, "fp16_e5m2", 40)) {
      EXPECT_GT(implicit_gemm_tiling(problem, configuration, 132).k_steps(), 1)
          << line << configuration.to_json();
      ++found;
    }
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace knobwise
