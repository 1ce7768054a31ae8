#include <algorithm>
#include <cmath>
#include <random>

#include "tests/cuda/host_tensors.h"
#include "tests/cuda/unfused_epilogue_problems.h"

namespace knobwise {
namespace {

class UnfusedEpilogueGpuTest : public GpuTest, public testing::WithParamInterface<const char*> {};

TEST_P(UnfusedEpilogueGpuTest, EveryFamilyIsWithinRoundingOfTheReference) {
  HostTensors host(Problem::parse(GetParam()), Distribution::integers);
  const std::vector<double> reference = host.reference();
  for (const KernelFamily* family : cuda_families()) {
    if (family->builtin()) continue;
    if (const auto reason = family->unsupported_reason(host.problem, device().info())) {
      // Types and layouts are what they lack, not epilogues.
      EXPECT_EQ(reason->find("epilogue"), std::string::npos) << *reason;
      continue;
    }
    const BoundSpace space = bind_space(*family, host.problem, device().info());
    std::mt19937_64 random(3);
    std::vector<std::uint64_t> indices = space.sample(std::min<std::uint64_t>(space.size(), 3), random);
    indices.push_back(space.default_index());
    for (const std::uint64_t index : indices) {
      const Configuration configuration = space.configuration(index);
      SCOPED_TRACE(std::string(family->name()) + " " + configuration.to_json());
      const std::vector<double> output = host.run(
          device(), *compile_and_load(family->instantiate(host.problem, configuration, device().info())));
      double worst = 0;
      for (std::size_t i = 0; i < output.size(); ++i) {
        const double error = std::abs(output[i] - reference[i]) / std::max(1.0, std::abs(reference[i]));
        worst = error <= worst ? worst : error;  // NaN is the worst
        if (std::isnan(error)) break;
      }
      EXPECT_LE(worst, 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Problems, UnfusedEpilogueGpuTest, testing::ValuesIn(kUnfusedProblems));

}  // namespace
}  // namespace knobwise
