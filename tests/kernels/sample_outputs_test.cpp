// What a sample of outputs always holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "kernels/activation_index.h"
#include "kernels/reference.h"
#include "kernels/shared_work.h"
#include "tests/kernels/random_problems.h"

namespace knobwise {
namespace {

using Coordinates = std::array<std::int64_t, 5>;

Coordinates size_of_output(const Problem& problem) {
  const Extents e = problem.output_extents();
  return {e.n, e.c, e.d, e.h, e.w};
}

std::array<std::set<std::int64_t>, 5> places(const Problem& problem,
                                             const std::vector<std::int64_t>& indices) {
  std::array<std::set<std::int64_t>, 5> seen;
  for (std::int64_t index : indices) {
    const Position p = position_at(problem.layout, problem.output_extents(), index);
    const Coordinates at = {p.n, p.c, p.d, p.h, p.w};
    for (std::size_t i = 0; i < 5; ++i) seen[i].insert(at[i]);
  }
  return seen;
}

void expect_edges_and_seams(const Problem& problem, const OutputTile& tile, std::int64_t budget) {
  const std::vector<std::int64_t> indices = sample_outputs(problem, tile, budget, 9);
  const std::string line = problem.to_string();
  ASSERT_TRUE(std::is_sorted(indices.begin(), indices.end())) << line;
  ASSERT_EQ(std::adjacent_find(indices.begin(), indices.end()), indices.end()) << line;
  ASSERT_GE(indices.front(), 0);
  ASSERT_LT(indices.back(), problem.output_extents().elements()) << line;

  const Coordinates size = size_of_output(problem);
  const Coordinates tiles = {size[0], tile.k, tile.d, tile.h, tile.w};
  const auto seen = places(problem, indices);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(seen[i].contains(0) && seen[i].contains(size[i] - 1)) << line << " dimension " << i;
    for (std::int64_t seam = tiles[i]; seam < size[i]; seam += tiles[i]) {
      EXPECT_TRUE(seen[i].contains(seam - 1)) << line << " dimension " << i << " before " << seam;
      EXPECT_TRUE(seen[i].contains(seam)) << line << " dimension " << i << " after " << seam;
    }
  }
  for (int corner = 0; corner < 32; ++corner) {
    Coordinates at{};
    for (std::size_t i = 0; i < 5; ++i) at[i] = corner >> i & 1 ? size[i] - 1 : 0;
    const std::int64_t index =
        memory_index(problem.layout, problem.output_extents(), {at[0], at[1], at[2], at[3], at[4]});
    EXPECT_TRUE(std::binary_search(indices.begin(), indices.end(), index)) << line << " corner " << corner;
  }
}

TEST(SampleOutputs, PublishedProblemsHaveEveryEdgeAndSeam) {
  for (const char* line :
       {"conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias",
        "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
        "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
        "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
        "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine"}) {
    for (const OutputTile& tile : {OutputTile{}, OutputTile{32, 1, 8, 16}, OutputTile{7, 3, 5, 100}}) {
      expect_edges_and_seams(Problem::parse(line), tile, 20'000);
    }
  }
}

TEST(SampleOutputs, RandomProblemsHaveEveryEdgeAndSeam) {
  RandomProblems problems(21);
  for (int i = 0; i < 300; ++i) {
    Problem problem = problems.next();
    problem.n += problems.integer(0, 9);
    const OutputTile tile{problems.integer(1, 5), problems.integer(1, 3), problems.integer(1, 4),
                          problems.integer(1, 6)};
    expect_edges_and_seams(problem, tile, problems.integer(40, 400));
  }
}

TEST(SampleOutputs, SmallOutputsAreTakenWhole) {
  const Problem problem = Problem::parse("conv1d n=2 c=1 w=10 k=3 s=1");
  EXPECT_EQ(sample_outputs(problem, {}, 60, 1).size(), 60u);
  EXPECT_LT(sample_outputs(problem, {}, 59, 1).size(), 60u);
}

TEST(SampleOutputs, NumberIsNearTheBudget) {
  for (const char* steps : {"relu", "softmax channel", "min height | softmax channel", "instance_norm"}) {
    const Problem problem = Problem::parse(std::string("conv2d n=64 c=4 h=66 w=66 k=32 r=3 s=3 | ") + steps);
    const std::size_t count = sample_outputs(problem, {16, 1, 8, 8}, 10'000, 1).size();
    EXPECT_LE(count, 10'000u) << steps;
    EXPECT_GT(count, 5'000u) << steps;
  }
}

TEST(SampleOutputs, SeedDecidesAndDiffers) {
  const Problem problem = Problem::parse("conv2d n=64 c=4 h=66 w=66 k=32 r=3 s=3");
  EXPECT_EQ(sample_outputs(problem, {}, 1000, 1), sample_outputs(problem, {}, 1000, 1));
  EXPECT_NE(sample_outputs(problem, {}, 1000, 1), sample_outputs(problem, {}, 1000, 2));
}

TEST(SampleOutputs, GroupsTooLargeToComputeAreFew) {
  // One group is 1.1e9 multiply-accumulates; 32 groups in each of 8 samples.
  const Problem problem = Problem::parse("conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7 | group_norm groups=32");
  std::set<Box> parts;
  for (std::int64_t index : sample_outputs(problem, {8, 1, 8, 32}, 20'000, 1)) {
    parts.insert(convolution_box(problem, position_at(problem.layout, problem.output_extents(), index)));
  }
  EXPECT_LE(parts.size(), 12u);
}

TEST(SharedWork, BoxesHoldWhatAnOutputNeeds) {
  const auto box = [](const char* line, Position at) { return convolution_box(Problem::parse(line), at); };
  EXPECT_EQ(box("conv2d n=2 c=1 h=8 w=9 k=6 r=1 s=1 | relu", {1, 2, 0, 3, 4}),
            (Box{{1, 2, 0, 3, 4}, {1, 2, 0, 3, 4}}));
  EXPECT_EQ(box("conv3d n=2 c=1 d=5 h=8 w=9 k=6 t=1 r=1 s=1 | min depth | softmax channel", {1, 2, 0, 3, 4}),
            (Box{{1, 0, 0, 3, 4}, {1, 5, 4, 3, 4}}));
  EXPECT_EQ(box("conv2d n=2 c=1 h=8 w=9 k=6 r=1 s=1 | group_norm groups=2", {1, 4, 0, 3, 4}),
            (Box{{1, 3, 0, 0, 0}, {1, 5, 0, 7, 8}}));
  // The groups of the first norm that the second one's group touches.
  EXPECT_EQ(box("conv1d n=1 c=1 w=9 k=12 s=1 | group_norm groups=3 | group_norm groups=2", {0, 0, 0, 0, 0}),
            (Box{{0, 0, 0, 0, 0}, {0, 7, 0, 0, 8}}));
}

TEST(SharedWork, CostCountsTheWholePart) {
  EXPECT_EQ(shared_macs(Problem::parse("conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7")), 2240);
  EXPECT_EQ(shared_macs(Problem::parse(
                "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine")),
            8.0 * 1024 * 384);
}

}  // namespace
}  // namespace knobwise
