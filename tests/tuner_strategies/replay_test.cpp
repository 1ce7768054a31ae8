#include "tuner/simulation/replay.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tests/tuner_strategies/spaces.h"

namespace knobwise {
namespace {

// Multiplicative effects of knobs with an interaction, and a corner that fails: as kernels behave.
Recording synthetic(const BoundSpace& space) {
  Recording recording{"synthetic", {}};
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const Positions at = space.positions(index);
    const double x = at[0], y = at[1], z = at[2];
    const bool fails = x + y > 24;
    const double time = std::exp(0.04 * (x - 9) * (x - 9) + 0.03 * (x - y) * (x - y)) * (z == 1 ? 1 : 1.7);
    recording.times.push_back(fails ? INFINITY : time);
  }
  return recording;
}

TEST(Replay, CurveIsTheRunningMinimumAndKeepsItsLastValue) {
  const BoundSpace space = test::make_space({"range(3)", "range(2)"});
  const Recording recording{"test", {INFINITY, 5, 7, 2, INFINITY, 3}};
  const Replay run = replay(space, recording, "exhaustive", 0, 8);
  EXPECT_EQ(run.curve, (Curve{INFINITY, 5, 5, 2, 2, 2, 2, 2}));
  EXPECT_EQ(run.trials, 6u);
  EXPECT_EQ(run.failures, 2u);
}

TEST(Simulate, RandomSearchScoresZero) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)"});
  const Simulation result = simulate(space, synthetic(space), "random", 100, 400);
  EXPECT_NEAR(result.score.mean, 0, 4 * result.score.standard_error);
  EXPECT_NEAR(result.mean_curve[20], result.random.expected[20], 0.2 * result.random.expected[20]);
}

TEST(Simulate, IsTheSameEachTime) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)"});
  const Recording recording = synthetic(space);
  EXPECT_EQ(simulate(space, recording, "auto", 40, 3).mean_curve,
            simulate(space, recording, "auto", 40, 3).mean_curve);
}

TEST(Simulate, GuidedSearchBeatsRandomSearchOnASmoothSpace) {
  const BoundSpace space = test::make_space({"range(16)", "range(16)", "range(4)"});
  const Recording recording = synthetic(space);
  for (const std::string strategy : {"auto", "bayes"}) {
    const Simulation result = simulate(space, recording, strategy, 60, 10);
    EXPECT_GT(result.score.mean, 0.5) << strategy;
    EXPECT_LT(result.median_curve.back(), 1.05 * result.random.optimum) << strategy;
  }
}

TEST(Simulate, AutoBeatsTheBestPeerOnThePublishedRecordings) {
  const std::string folder = "../shared/recorded_spaces/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const BoundSpace space = SearchSpace::load(folder + "convolution_milo.T1.json").bind();
  double mean = 0;
  for (const std::string device : {"A100", "A4000", "MI250X"}) {
    const Recording recording = load_recording(folder + "convolution_milo." + device + ".T4.json.gz", space);
    mean += simulate(space, recording, "auto", 200, 8).score.mean / 3;
  }
  EXPECT_GT(mean, 0.45);
}

}  // namespace
}  // namespace knobwise
