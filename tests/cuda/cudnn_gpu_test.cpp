#include "kernels/vendor/cudnn.h"

#include <iostream>
#include <map>
#include <utility>

#include "search_spaces/user_error.h"
#include "tests/cuda/gpu_fixture.h"
#include "tests/cuda/small_problems.h"

namespace knobwise {
namespace {

class CudnnGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const Problem any = Problem::parse("conv2d n=1 c=1 h=3 w=3 k=1 r=3 s=3");
    if (const auto reason = cudnn_family().unsupported_reason(any, device().info())) GTEST_SKIP() << *reason;
  }
};

// What the precision explains: Winograd's and the transforms' fp32 included.
double bound_of(const Problem& problem, const Configuration& configuration) {
  if (problem.dtype == DType::bf16) return 1.6e-2;
  return configuration.text("precision") == "fp32" ? 2e-5 : 2e-3;
}

TEST_F(CudnnGpuTest, EveryConfigurationThatRunsIsRight) {
  for (const char* line : kSmallProblems) {
    const Problem problem = Problem::parse(line);
    const BoundSpace space = bind_space(cudnn_family(), problem, device().info());
    DeviceTensors tensors(device(), problem);
    int ran = 0;
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      const Configuration configuration = space.configuration(i);
      try {
        const auto executable = cudnn_family().create_builtin(problem, configuration, device());
        for (Distribution distribution : kDistributions) {
          tensors.fill(distribution, 9);
          tensors.run(*executable);
          const ErrorMetrics metrics = tensors.verify();
          EXPECT_EQ(metrics.nans, 0) << line << " " << configuration.to_json();
          EXPECT_LE(metrics.rel_fro, bound_of(problem, configuration))
              << line << " " << configuration.to_json();
        }
        ++ran;
      } catch (const TrialError& error) {
        EXPECT_EQ(error.status(), "unsupported")
            << line << " " << configuration.to_json() << ": " << error.what();
      }
    }
    EXPECT_GT(ran, 0) << line;
  }
}

// What an engine keeps of the last tensors is not used for others.
TEST_F(CudnnGpuTest, AnEngineRunsOnTheTensorsOfTheCall) {
  const Problem problem = Problem::parse(kSmallProblems[0]);
  const Configuration engine =
      Configuration::from_json(R"({"algorithm": "engine_0", "precision": "tf32", "format": "nchw"})");
  const auto executable = cudnn_family().create_builtin(problem, engine, device());
  DeviceTensors first(device(), problem), second(device(), problem);
  for (std::uint64_t seed : {1, 2}) {
    for (DeviceTensors* tensors : {&first, &second, &second}) {
      tensors->fill(Distribution::uniform, seed);
      tensors->run(*executable);
      const ErrorMetrics metrics = tensors->verify();
      EXPECT_EQ(metrics.nans, 0);
      EXPECT_LE(metrics.rel_fro, bound_of(problem, engine));
    }
  }
}

TEST_F(CudnnGpuTest, RunsTheReferenceProblems) {
  for (const char* line : kReferenceProblems) {
    const Problem problem = Problem::parse(line);
    const BoundSpace space = bind_space(cudnn_family(), problem, device().info());
    DeviceTensors tensors(device(), problem);
    tensors.fill(Distribution::uniform, 9);
    std::map<std::string, std::pair<double, std::string>> best;
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      const Configuration configuration = space.configuration(i);
      try {
        const auto executable = cudnn_family().create_builtin(problem, configuration, device());
        tensors.run(*executable);
        EXPECT_LE(tensors.verify().rel_fro, bound_of(problem, configuration))
            << line << configuration.to_json();
        TimingOptions options;
        options.min_samples = options.max_samples = 30;
        options.max_seconds = 0.5;
        const double us = device().time(*executable, tensors.buffers(), options).median_us;
        auto& entry = best[configuration.text("precision")];
        if (entry.first == 0 || us < entry.first) entry = {us, configuration.to_json()};
      } catch (const TrialError& error) {
        EXPECT_EQ(error.status(), "unsupported")
            << line << " " << configuration.to_json() << ": " << error.what();
      } catch (const UserError& error) {
        std::cout << configuration.to_json() << ": " << error.what() << "\n";
      }
    }
    EXPECT_TRUE(best.contains("fp32") && best.contains("tf32")) << line;
    for (const auto& [precision, entry] : best) {
      std::cout << line << ": " << precision << " " << entry.first << " us with " << entry.second << "\n";
    }
  }
}

}  // namespace
}  // namespace knobwise
