// The whole runtime on real devices: the CPU, and a CUDA device where there is one.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "db/store.h"
#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"
#include "kernels/operands.h"
#include "tests/runtime/allocation_count.h"
#include "tests/runtime/record_trial.h"

namespace knobwise::test {
namespace {

// Small relatives of the reference problems, each with its kind of epilogue.
constexpr const char* kProblems[] = {
    "conv2d n=2 c=3 h=31 w=31 k=8 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=2 c=8 h=20 w=20 k=16 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=2 c=3 d=6 h=10 w=10 k=8 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=1 c=16 h=24 w=20 k=16 r=5 s=7",
    "conv1d n=2 c=16 w=64 k=32 s=3 pad=1 | group_norm groups=8 eps=1e-5 affine"};

class DeviceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      device_ = open_device(GetParam());
    } catch (const UserError& error) {
      GTEST_SKIP() << error.what();
    }
    folder_ = std::filesystem::temp_directory_path() /
              ("knobwise-device-test-" + std::to_string(getpid()) + "-" + GetParam());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  DispatcherOptions options(std::vector<std::filesystem::path> databases = {}) {
    return {.databases = std::move(databases),
            .device = GetParam(),
            .code_cache = folder_ / "code",
            .on_new_plan = [](const PlanDescription&) {}};
  }
  // Puts a plan's kernel on record as if it had been tuned.
  void record(Store& store, const PlanDescription& plan, double time_us);
  // Fills tensors, runs the plan, and measures the error against float64.
  ErrorMetrics run(Plan& plan, Distribution distribution = Distribution::normal);

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<DeviceBuffer>> memory_;  // of every run: plans refer to their parameters
  std::filesystem::path folder_;
};

void DeviceTest::record(Store& store, const PlanDescription& plan, double time_us) {
  record_trial(store, device_->info(), Problem::parse(plan.problem),
               *find_family(device_->info().backend, plan.family), plan.configuration, time_us,
               plan.error.value());
}

ErrorMetrics DeviceTest::run(Plan& plan, Distribution distribution) {
  const Problem& problem = plan.problem();
  const auto tensor = [&](std::int64_t elements, int parameter) {
    memory_.push_back(
        device_->allocate(static_cast<std::size_t>(elements) * size_of(problem.dtype), "tensor"));
    device_->fill_operand(memory_.back()->data(), problem.dtype, elements,
                          operand_fill(problem, distribution, 3, parameter));
    return memory_.back()->data();
  };
  Buffers buffers;
  buffers.input = tensor(problem.input_extents().elements(), -1);
  std::vector<ConstBuffer> parameters;
  for (const ParameterSpec& spec : problem.parameters()) {
    buffers.parameters.push_back(tensor(spec.elements(), static_cast<int>(parameters.size())));
    parameters.emplace_back(buffers.parameters.back(),
                            static_cast<std::size_t>(spec.elements()) * size_of(problem.dtype));
  }
  buffers.output = tensor(problem.output_extents().elements(), -1);
  device_->fill_bytes(buffers.output, 0xFF, plan.output_bytes());
  device_->synchronize();
  plan.prepare(parameters);
  plan.run({buffers.input, plan.input_bytes()}, {buffers.output, plan.output_bytes()});
  device_->synchronize();
  return device_->verify(problem, buffers, OutputTile{}, 3);
}

TEST_P(DeviceTest, EveryStepServesTheReferenceProblemsRightly) {
  Dispatcher dispatcher(options());
  const AccuracyRequirement allclose = AccuracyRequirement::parse("allclose");
  for (const char* line : kProblems) {
    for (Provenance step : {Provenance::family_default, Provenance::vendor, Provenance::reference}) {
      Requirement requirement;
      requirement.allow = {step};
      try {
        Plan plan = dispatcher.plan(line, requirement);
        const ErrorMetrics error = run(plan);
        EXPECT_TRUE(allclose.accepts(error))
            << plan.description().to_string() << ": " << error.max_abs << ", " << error.frac_outside;
      } catch (const UserError& error) {
        // A vendor's library need not be there, nor do every problem.
        EXPECT_EQ(step, Provenance::vendor) << error.what();
      }
    }
  }
}

TEST_P(DeviceTest, AStoredResultIsServedExactlyAndToItsNeighbours) {
  const auto path = folder_ / "tuned.db";
  {
    Dispatcher dispatcher(options());
    Store store = Store::open(path, Store::Mode::read_write);
    for (const char* line : kProblems) {
      record(store, dispatcher.plan(line, {.allow = {Provenance::family_default}}).description(), 42);
    }
  }
  Dispatcher dispatcher(options({path}));
  for (const char* line : kProblems) {
    Plan plan = dispatcher.plan(line);
    EXPECT_EQ(plan.description().provenance, Provenance::exact) << plan.description().to_json();
    EXPECT_EQ(plan.description().predicted_us, 42);
    EXPECT_TRUE(AccuracyRequirement::parse("allclose").accepts(run(plan)));
  }
  Plan neighbour = dispatcher.plan("conv2d n=4 c=8 h=20 w=20 k=16 r=3 s=3 bias | div 2 | leaky_relu 0.01");
  EXPECT_EQ(neighbour.description().provenance, Provenance::nearest) << neighbour.description().to_json();
  EXPECT_TRUE(AccuracyRequirement::parse("allclose").accepts(run(neighbour)));
}

TEST_P(DeviceTest, LaterRunsAllocateNothing) {
  Dispatcher dispatcher(options());
  for (const char* line : kProblems) {
    Plan plan = dispatcher.plan(line);
    run(plan);
    std::vector<std::unique_ptr<DeviceBuffer>> memory;
    const ConstBuffer input(memory.emplace_back(device_->allocate(plan.input_bytes(), "input"))->data(),
                            plan.input_bytes());
    const MutableBuffer output(memory.emplace_back(device_->allocate(plan.output_bytes(), "output"))->data(),
                               plan.output_bytes());
    device_->fill_bytes(memory[0]->data(), 0, plan.input_bytes());
    plan.run(input, output);
    const std::size_t before = allocation_count();
    for (int i = 0; i < 10; ++i) plan.run(input, output);
    EXPECT_EQ(allocation_count(), before) << plan.description().to_string();
    device_->synchronize();
  }
}

// Of a GPU: fake_driver_test.cpp and gpu_test.cpp.
TEST(HostMemory, ThatCannotBeReadOrWrittenIsRefused) {
  Dispatcher dispatcher({.device = "cpu", .on_new_plan = [](const PlanDescription&) {}});
  Plan plan = dispatcher.plan("conv1d n=1 c=1 w=1024 k=1 s=1", {.allow = {Provenance::reference}});
  constexpr std::size_t kBytes = 4096;
  ASSERT_EQ(plan.input_bytes(), kBytes);
  ASSERT_EQ(plan.output_bytes(), kBytes);
  const auto pages = [](int protection) {
    void* const data = mmap(nullptr, 2 * kBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    return static_cast<char*>(data);
  };
  char* const plain = pages(PROT_READ | PROT_WRITE);
  char* const constant = pages(PROT_READ);
  char* const none = pages(PROT_NONE);
  plan.prepare({{plain, 16}});
  EXPECT_THROW(plan.prepare({{none, 16}}), UserError);
  const auto run = [&](char* input, char* output) { plan.run({input, kBytes}, {output, kBytes}); };
  EXPECT_THROW(run(none, plain + kBytes), UserError);
  EXPECT_THROW(run(plain + kBytes, constant), UserError);
  EXPECT_THROW(run(plain + kBytes, none), UserError);
  EXPECT_THROW(run(plain + kBytes, reinterpret_cast<char*>(16)), UserError);
  mprotect(constant, kBytes, PROT_READ | PROT_WRITE);
  EXPECT_THROW(run(plain + kBytes, constant + 16), UserError) << "its end cannot be written";
  run(constant + kBytes, constant);
}

TEST(HostMemory, WithAHoleIsRefused) {
  Dispatcher dispatcher({.device = "cpu", .on_new_plan = [](const PlanDescription&) {}});
  Plan plan = dispatcher.plan("conv1d n=1 c=1 w=8192 k=1 s=1", {.allow = {Provenance::reference}});
  const auto memory = [&] {
    void* const data =
        mmap(nullptr, plan.input_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(data, MAP_FAILED);
    return static_cast<char*>(data);
  };
  char* const whole = memory();
  char* const other = memory();
  char* const torn = memory();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ASSERT_GT(plan.input_bytes(), 3 * page);
  munmap(torn + page, page);
  plan.prepare({{whole, 4}});
  const auto run = [&](char* input, char* output) {
    plan.run({input, plan.input_bytes()}, {output, plan.output_bytes()});
  };
  EXPECT_THROW(run(torn, other), UserError);
  EXPECT_THROW(run(whole, torn), UserError);
  run(whole, other);
}

// What a child does with what its parent made, in time; the exit status, or -1.
template <class Action>
int in_child(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(action());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Fork, AChildRunsThePlansOfItsParentOrIsToldThatItCannot) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  const auto folder = std::filesystem::temp_directory_path() / ("knobwise-fork-" + std::to_string(getpid()));
  {
    Dispatcher dispatcher(
        {.device = "cpu", .code_cache = folder, .on_new_plan = [](const PlanDescription&) {}});
    for (const Provenance step : {Provenance::family_default, Provenance::vendor, Provenance::reference}) {
      std::vector<float> weights(8 * 8 * 9, 1), input(2 * 8 * 30 * 30, 1), output(2 * 8 * 28 * 28);
      try {
        Plan plan = dispatcher.plan("conv2d n=2 c=8 h=30 w=30 k=8 r=3 s=3", {.allow = {step}});
        plan.prepare({weights});
        plan.run(input, output);
        const int status = in_child([&] {
          output[0] = 0;
          try {
            plan.run(input, output);
          } catch (const std::runtime_error& error) {
            return std::string(error.what()).find("OMP_NUM_THREADS=1") != std::string::npos ? 3 : 4;
          }
          return output[0] == 72 ? 0 : 1;
        });
        EXPECT_TRUE(status == 0 || (status == 3 && step == Provenance::vendor))
            << to_string(step) << ": " << status;
      } catch (const UserError& error) {
        EXPECT_EQ(step, Provenance::vendor) << error.what();  // the library need not be there
      }
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_P(DeviceTest, IntegersAreExact) {
  Dispatcher dispatcher(options());
  Plan plan = dispatcher.plan(kProblems[3]);
  EXPECT_EQ(run(plan, Distribution::integers).max_abs, 0) << plan.description().to_string();
}

TEST_P(DeviceTest, HalfTypesMeetTheirOwnAccuracy) {
  Dispatcher dispatcher(options());
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string line = std::string("conv2d n=2 c=8 h=20 w=20 k=16 r=3 s=3 dtype=") + dtype + " | relu";
    Plan plan = dispatcher.plan(line);
    EXPECT_TRUE(AccuracyRequirement::parse(dtype == std::string("f16") ? "half" : "bf16").accepts(run(plan)))
        << plan.description().to_string();
  }
}

TEST_P(DeviceTest, AStricterAccuracyThanTheTypeHoldsIsRefused) {
  Dispatcher dispatcher(options());
  const Requirement allclose{.accuracy = AccuracyRequirement::parse("allclose")};
  for (const char* dtype : {"f16", "bf16"}) {
    const std::string line = std::string("conv2d n=2 c=8 h=20 w=20 k=16 r=3 s=3 dtype=") + dtype;
    EXPECT_THROW(dispatcher.plan(line, allclose), UserError) << dtype;
  }
}

// Destroyed after every static that the library makes when it is used.
struct LastWords {
  std::function<void()> say;
  ~LastWords() {
    if (say) say();
  }
} last_words;

TEST(AtExit, StaticObjectsStillPlanAndRun) {
  const auto exit_with_last_words = [] {
    const auto folder =
        std::filesystem::temp_directory_path() / ("knobwise-at-exit-" + std::to_string(getpid()));
    const auto dispatcher =
        std::make_shared<Dispatcher>(DispatcherOptions{.device = "cpu", .code_cache = folder});
    const auto centre = [dispatcher](const char* line, Provenance step) {
      Plan plan = dispatcher->plan(line, {.allow = {step}});
      std::vector<float> weights(2 * 3 * 9, 1), input(3 * 64, 1), output(2 * 64);
      plan.prepare({weights});
      plan.run(input, output);
      return output[9];
    };
    constexpr const char* kLine = "conv2d n=1 c=3 h=8 w=8 k=2 r=3 s=3 pad=1";
    const float before = centre(kLine, Provenance::family_default);
    last_words.say = [=] {
      const bool right =
          before == 27 && centre(kLine, Provenance::family_default) == 27 &&
          centre("conv2d n=1 c=3 h=8 w=8 k=2 r=3 s=3 pad=1 | relu", Provenance::family_default) == 27 &&
          centre(kLine, Provenance::reference) == 27;
      std::filesystem::remove_all(folder);
      _exit(right ? 0 : 1);
    };
    std::exit(2);
  };
  EXPECT_EXIT(exit_with_last_words(), ::testing::ExitedWithCode(0), "");
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "cpu" ? "Cpu" : "Gpu";
}
INSTANTIATE_TEST_SUITE_P(Devices, DeviceTest, ::testing::Values("cpu", "cuda"), name_of);

}  // namespace
}  // namespace knobwise::test
