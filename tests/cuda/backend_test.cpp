#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <regex>
#include <set>

#include "kernels/accuracy.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/error_metrics.h"
#include "kernels/cuda/reference_family.h"
#include "kernels/cuda/reference_tile.h"
#include "kernels/cuda/resource_report.h"
#include "search_spaces/user_error.h"
#include "tests/cuda/small_problems.h"

namespace knobwise {
namespace {

using testing::HasSubstr;

TEST(ResourceReport, ReadsEveryFunction) {
  const auto functions = parse_resource_report(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "ptxas info    : Function properties for b\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 28 registers, used 1 barriers, 1024 bytes smem\n"
      "ptxas info    : Compile time = 77.109 ms\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas info    : Function properties for a\n"
      "    264 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 0 barriers, 264 bytes cumulative stack size, 400 bytes "
      "cmem[0]\n");
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions.at("b").registers, 28);
  EXPECT_EQ(functions.at("b").static_shared_bytes, 1024);
  EXPECT_EQ(functions.at("b").spill_bytes, 0);
  EXPECT_EQ(functions.at("a").registers, 255);
  EXPECT_EQ(functions.at("a").stack_bytes, 264);
  EXPECT_EQ(functions.at("a").spill_bytes, 32);
  EXPECT_EQ(functions.at("a").static_shared_bytes, 0);
}

TEST(ResourceReport, ForeignTextYieldsNothing) {
  EXPECT_TRUE(parse_resource_report("").empty());
  EXPECT_TRUE(parse_resource_report("knobwise.cu(3): warning: Used 7 registers").empty());
}

TEST(ResourceReport, WorstTakesTheLeastOccupancyThatIsKnown) {
  Resources a, b;
  a.occupancy = 0.5;
  EXPECT_EQ(worst_of(a, b).occupancy, 0.5);
  b.occupancy = 0.25;
  EXPECT_EQ(worst_of(a, b).occupancy, 0.25);
}

TEST(CudaTargets, AreDescribedAndOthersRefused) {
  for (int capability : {80, 86, 89, 90, 100, 120}) {
    const DeviceInfo info = cuda_target_info(capability);
    EXPECT_EQ(info.architecture, "sm_" + std::to_string(capability));
    EXPECT_EQ(info.compute_capability, capability);
    EXPECT_GT(info.shared_bytes_per_block, 48 * 1024);
    EXPECT_LT(info.shared_bytes_per_block, info.shared_bytes_per_multiprocessor);
  }
  EXPECT_EQ(cuda_target_info(90).shared_bytes_per_block, 232448);
  EXPECT_THROW(cuda_target_info(75), UserError);
}

TEST(CudaDevices, AMissingDriverIsOneNote) {
  std::vector<std::string> notes;
  const std::vector<DeviceInfo> infos = cuda_device_infos(&notes);
  if (!infos.empty()) GTEST_SKIP() << "this machine has a device";
  ASSERT_FALSE(notes.empty());
  EXPECT_THAT(notes.front(), Not(HasSubstr("\n")));
  EXPECT_THROW(open_cuda_device(0), UserError);
}

TEST(CudaFamilies, HaveNamesOfTheirOwnAndEndWithTheReference) {
  std::set<std::string_view> names;
  for (const KernelFamily* family : cuda_families()) {
    EXPECT_TRUE(names.insert(family->name()).second) << family->name();
    EXPECT_EQ(family->backend(), Backend::cuda);
    EXPECT_FALSE(family->source_hash().empty());
  }
  EXPECT_EQ(cuda_families().back()->name(), "reference");
}

TEST(CudaFamilies, SpacesOfTheUntunedFamiliesBindToEveryProblem) {
  for (const KernelFamily* family : cuda_families()) {
    if (family->name() != "cudnn" && family->name() != "reference") continue;
    for (const char* line : kReferenceProblems) {
      const BoundSpace space = bind_space(*family, Problem::parse(line), cuda_target_info(89));
      EXPECT_FALSE(space.empty()) << family->name() << " " << line;
      EXPECT_LE(space.size(), 100u) << family->name() << " " << line;
    }
  }
}

TEST(CudaFamilies, DefaultsAreThoseOfTheBoundSpaces) {
  const DeviceInfo device = cuda_target_info(90);
  for (const KernelFamily* family : cuda_families()) {
    for (const char* line : kSmallProblems) {
      const Problem problem = Problem::parse(line);
      if (family->unsupported_reason(problem, device)) continue;
      const BoundSpace space = bind_space(*family, problem, device);
      const auto configuration = default_configuration(*family, problem, device);
      ASSERT_EQ(configuration.has_value(), !space.empty()) << family->name() << " " << line;
      if (configuration) {
        EXPECT_EQ(configuration->to_json(), space.configuration(space.default_index()).to_json())
            << family->name() << " " << line;
      }
    }
  }
}

TEST(ErrorSums, MeanWhatTheErrorAccumulatorMeans) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 20; ++round) {
    ErrorAccumulator accumulator, rest;
    ErrorSums first, second;
    for (int i = 0; i < 500; ++i) {
      const double ref = round == 0 ? 0 : normal(random);
      double out = ref * (1 + 1e-4 * normal(random));
      if (round > 15 && i % 50 == 0) out = nan;
      if (round == 18 && i == 77) out = infinity;
      (i < 200 ? accumulator : rest).add(out, ref);
      add_error(i < 200 ? first : second, out, ref);
    }
    accumulator.merge(rest);
    merge_errors(first, second);
    const ErrorMetrics expected = accumulator.metrics(), actual = metrics_of(first);
    EXPECT_EQ(actual.checked, expected.checked);
    EXPECT_EQ(actual.nans, expected.nans);
    EXPECT_EQ(actual.frac_outside, expected.frac_outside);
    EXPECT_EQ(actual.max_abs, expected.max_abs);
    EXPECT_DOUBLE_EQ(actual.mean_abs, expected.mean_abs);
    EXPECT_DOUBLE_EQ(actual.rms, expected.rms);
    EXPECT_DOUBLE_EQ(actual.rel_fro, expected.rel_fro);
  }
}

TEST(ReferenceTile, UsesAllThreadsAndCoversTheChannels) {
  for (int outputs = 1; outputs <= 300; ++outputs) {
    const ReferenceTile tile = reference_tile(outputs);
    EXPECT_EQ(tile.channel_threads * tile.position_threads(), ReferenceTile::kThreads);
    EXPECT_LE(tile.channels_per_thread, outputs);
    EXPECT_GE(tile.channels(), std::min(outputs, 128));
    EXPECT_LE(tile.channels(), 128);
  }
}

TEST(CudaReference, LongBatchesRunInChunksOfBoundedScratch) {
  const Problem problem = Problem::parse("conv2d n=70 c=1 h=2048 w=2048 k=1 r=1 s=1 | relu");
  const KernelInstance instance = float64_reference(problem);
  EXPECT_LE(instance.workspace_bytes, (std::size_t{1} << 30) + 4096);
  // 32 samples of 32 MB fit: three chunks of convolution, relu, store and the step to the next, after one
  // begin.
  EXPECT_EQ(instance.run.size(), 1u + 3 * 4);
}

TEST(CudaReference, EveryTensorOfAStepLiesInTheWorkspace) {
  // Where a step reads and writes, and the extents that it reads.
  const std::regex step(
      R"((reduce|store|softmax|normalise|pointwise)\(workspace, (\d+)ll, (?:(\d+)ll, )?Shape\{(\d+), (\d+), (\d+), (\d+)\})");
  std::vector<std::string> lines(std::begin(kSmallProblems), std::end(kSmallProblems));
  lines.insert(lines.end(), {"conv2d n=256 c=64 h=130 w=130 k=1 r=3 s=3 | max channel",
                             "conv3d n=1 c=3 d=3 h=8 w=8 k=64 t=3 r=3 s=3 | sum depth | relu",
                             "conv2d n=4 c=8 h=1 w=66 k=32 r=1 s=3 | mean height | softmax channel",
                             "conv2d n=4 c=8 h=1 w=66 k=32 r=1 s=3 | mean height | max channel | min width"});
  for (const std::string& line : lines) {
    const Problem problem = Problem::parse(line);
    const KernelInstance instance = float64_reference(problem);
    int steps = 0;
    for (std::sregex_iterator found(instance.source.begin(), instance.source.end(), step), end; found != end;
         ++found, ++steps) {
      const std::smatch& match = *found;
      std::size_t bytes = 8 * static_cast<std::size_t>(problem.n);
      for (std::size_t i = 4; i < 8; ++i) bytes *= std::stoull(match[i]);
      EXPECT_LE(std::stoull(match[2]) + bytes, instance.workspace_bytes) << line << ": " << match[0];
      if (match[3].matched) {
        EXPECT_LT(std::stoull(match[3]), instance.workspace_bytes) << line << ": " << match[0];
      }
    }
    EXPECT_GE(steps, 1) << line;
  }
}

}  // namespace
}  // namespace knobwise
