// oneDNN as a family: every configuration of its space is right or says why it cannot run.
#include "kernels/vendor/onednn.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "kernels/reference.h"
#include "tests/kernels/random_problems.h"
#include "tests/kernels/tensors.h"

namespace knobwise {
namespace {

// Built-in CPU families take the device for granted; this one has nothing but a description.
class NoDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<DeviceBuffer> allocate(std::size_t, std::string_view) override { return nullptr; }
  void upload(void*, const void*, std::size_t) override {}
  void download(void*, const void*, std::size_t) override {}
  void fill_bytes(void*, unsigned char, std::size_t) override {}
  void synchronize() override {}
  void fill_operand(void*, DType, std::int64_t, const OperandFill&) override {}
  ErrorMetrics verify(const Problem&, const Buffers&, const OutputTile&, std::uint64_t) override {
    return {};
  }
  std::unique_ptr<Executable> load(const KernelInstance&, const CompiledCode&) override { return nullptr; }
  Timing time(Executable&, const Buffers&, const TimingOptions&) override { return {}; }

 private:
  DeviceInfo info_;
};

// Scratch memory of an executable, aligned as devices align it and poisoned.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : memory_(bytes + 64, 0xff) {}
  void* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }

 private:
  std::vector<unsigned char> memory_;
};

// The problems in small: the same operators and epilogues, extents that divide into nothing.
const char* const kProblems[] = {
    "conv2d n=2 c=3 h=33 w=35 k=20 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=3 c=8 h=19 w=21 k=24 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=2 c=3 d=7 h=9 w=10 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=2 c=16 h=17 w=18 k=20 r=5 s=7",
    "conv1d n=3 c=12 w=65 k=32 s=3 pad=1 | group_norm groups=8 eps=1e-5 affine",
    "conv2d n=2 c=16 h=12 w=13 k=32 r=3 s=3 pad=1 | relu",
    "conv2d n=2 c=6 h=9 w=9 k=9 r=3 s=3 groups=3 dilation=2 bias | clamp -1 1 | sum width | mul 2",
    "conv1d n=2 c=4 w=30 k=8 s=3 | silu | instance_norm",
    "conv2d n=2 c=2 h=1 w=1 k=4 r=1 s=1 bias | instance_norm affine",
    "conv2d n=2 c=5 h=12 w=13 k=7 r=3 s=3 layout=nhwc bias | hardswish",
    "conv3d n=1 c=4 d=5 h=6 w=7 k=8 t=2 r=2 s=2 layout=nhwc | gelu",
    "conv2d n=2 c=16 h=9 w=9 k=16 r=3 s=3 | mul 2 | mul 3 | add 1 | div 7",
    "conv2d n=2 c=16 h=9 w=9 k=16 r=3 s=3 | leaky_relu 0.5 | add 1 | leaky_relu 0.25 | add 2",
    "conv2d n=2 c=16 h=9 w=9 k=16 r=3 s=3 layout=nhwc | relu | sub 1 | leaky_relu 0.25",
    "conv2d n=2 c=8 h=9 w=11 k=12 r=3 s=3 bias | residual | relu | residual",
    "conv2d n=2 c=8 h=9 w=11 k=12 r=3 s=3 layout=nhwc bias | mul 2 | residual | relu",
    "conv3d n=2 c=4 d=5 h=6 w=7 k=6 t=2 r=2 s=2 layout=nhwc | residual | max depth | residual | softmax "
    "channel",
    "conv2d n=2 c=4 h=9 w=8 k=6 r=3 s=3 layout=nhwc bias | instance_norm eps=1e-3 affine | residual | mean "
    "height",
    "conv1d n=3 c=4 w=12 k=6 s=3 layout=nhwc | sum channel | relu",
};

class Onednn : public testing::Test {
 protected:
  void SetUp() override {
    const auto reason = onednn_family().unsupported_reason(Problem::parse(kProblems[0]), device_.info());
    if (reason) GTEST_SKIP() << *reason;
  }

  // Null where the library has no such primitive.
  std::unique_ptr<Executable> create(const Problem& problem, const Configuration& configuration) {
    try {
      return onednn_family().create_builtin(problem, configuration, device_);
    } catch (const TrialError& error) {
      EXPECT_EQ(error.status(), "unsupported") << error.what();
      return nullptr;
    }
  }

  ErrorMetrics errors(const Problem& problem, const Configuration& configuration, Distribution distribution) {
    const auto executable = create(problem, configuration);
    if (!executable) return {};
    Tensors tensors(problem, distribution, 6);
    Scratch packed(executable->packed_bytes()), workspace(executable->workspace_bytes());
    tensors.buffers().packed = packed.data();
    tensors.buffers().workspace = workspace.data();
    executable->prepare(tensors.buffers(), nullptr);
    for (int run = 0; run < 2; ++run) executable->run(tensors.buffers(), nullptr);
    return verify_host(problem, tensors.buffers(), {}, 1);
  }

  NoDevice device_;
};

TEST_F(Onednn, EveryConfigurationIsRight) {
  const AccuracyRequirement allclose = AccuracyRequirement::parse("allclose");
  for (const char* line : kProblems) {
    const Problem problem = Problem::parse(line);
    ASSERT_EQ(onednn_family().unsupported_reason(problem, device_.info()), std::nullopt) << line;
    const BoundSpace space = bind_space(onednn_family(), problem, device_.info());
    ASSERT_FALSE(space.empty()) << line;
    int ran = 0;
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      const Configuration configuration = space.configuration(i);
      for (Distribution distribution : kDistributions) {
        const ErrorMetrics metrics = errors(problem, configuration, distribution);
        if (metrics.checked == 0) continue;  // no such primitive
        ++ran;
        EXPECT_TRUE(allclose.accepts(metrics))
            << line << " " << configuration.to_json() << " " << to_string(distribution) << ": max_abs "
            << metrics.max_abs << ", outside " << metrics.frac_outside << ", nans " << metrics.nans;
      }
    }
    EXPECT_GE(ran, 3) << line;
  }
}

TEST_F(Onednn, DefaultConfigurationRunsEveryReferenceProblem) {
  for (int i = 0; i < 5; ++i) {
    const Problem problem = Problem::parse(kProblems[i]);
    const BoundSpace space = bind_space(onednn_family(), problem, device_.info());
    EXPECT_GT(errors(problem, space.configuration(space.default_index()), Distribution::uniform).checked, 0);
  }
}

TEST_F(Onednn, IsNotAskedForPaddingThatItTakesMinutesFor) {
  const auto reason = [&](const char* line) {
    return onednn_family().unsupported_reason(Problem::parse(line), device_.info());
  };
  EXPECT_TRUE(reason("conv2d n=1 c=2 h=3 w=3 k=2 r=2 s=2 stride=1000001 pad=1000000 dilation=1000001"));
  EXPECT_TRUE(reason("conv1d n=1 c=1 w=3 k=1 s=1 stride=1000000000 pad=1000000000"));
  EXPECT_FALSE(reason("conv1d n=1 c=1 w=3 k=1 s=1 stride=1000 pad=10000"));
}

TEST_F(Onednn, IntegersAreExactInDirectConvolution) {
  const Problem problem = Problem::parse("conv2d n=2 c=16 h=12 w=13 k=20 r=3 s=3 pad=1 bias | relu");
  const BoundSpace space = bind_space(onednn_family(), problem, device_.info());
  for (std::uint64_t i = 0; i < space.size(); ++i) {
    const Configuration configuration = space.configuration(i);
    if (configuration.text("algorithm") != "direct") continue;
    EXPECT_EQ(errors(problem, configuration, Distribution::integers).max_abs, 0) << configuration.to_json();
  }
}

TEST_F(Onednn, RandomProblemsAreRightOrRefused) {
  RandomProblems problems(31);
  const AccuracyRequirement requirement = AccuracyRequirement::parse("rel_fro=1e-4");
  int ran = 0;
  for (int i = 0; i < 250; ++i) {
    const Problem problem = problems.next();
    if (onednn_family().unsupported_reason(problem, device_.info())) continue;
    const BoundSpace space = bind_space(onednn_family(), problem, device_.info());
    // Steps after a norm see errors magnified where a group is nearly constant: integers are exact before it.
    const ErrorMetrics metrics =
        errors(problem, space.configuration(space.default_index()), Distribution::integers);
    if (metrics.checked == 0) continue;
    ++ran;
    EXPECT_TRUE(requirement.accepts(metrics)) << problem.to_string() << ": rel_fro " << metrics.rel_fro
                                              << ", max_abs " << metrics.max_abs << ", nans " << metrics.nans;
  }
  EXPECT_GT(ran, 20);
}

TEST_F(Onednn, RunsFromSeveralThreadsDoNotMix) {
  const Problem problem = Problem::parse(kProblems[1]);
  const BoundSpace space = bind_space(onednn_family(), problem, device_.info());
  const auto executable = create(problem, space.configuration(space.default_index()));
  ASSERT_TRUE(executable);
  constexpr std::size_t kThreads = 4;
  std::vector<std::unique_ptr<Tensors>> tensors;
  std::vector<std::unique_ptr<Scratch>> scratch;
  for (std::size_t t = 0; t < kThreads; ++t) {
    tensors.push_back(std::make_unique<Tensors>(problem, Distribution::normal, t));
    scratch.push_back(std::make_unique<Scratch>(executable->packed_bytes()));
    tensors[t]->buffers().packed = scratch.back()->data();
    scratch.push_back(std::make_unique<Scratch>(executable->workspace_bytes()));
    tensors[t]->buffers().workspace = scratch.back()->data();
    executable->prepare(tensors[t]->buffers(), nullptr);
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int run = 0; run < 20; ++run) executable->run(tensors[t]->buffers(), nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ(verify_host(problem, tensors[t]->buffers(), {}, 1).frac_outside, 0) << t;
  }
}

TEST_F(Onednn, RefusalsSayWhy) {
  const auto reason = [this](const char* line) {
    return onednn_family().unsupported_reason(Problem::parse(line), device_.info()).value_or("");
  };
  EXPECT_NE(reason("conv1d n=1 c=1 w=8 k=1 s=1 dtype=bf16").find("f32"), std::string::npos);
}

}  // namespace
}  // namespace knobwise
