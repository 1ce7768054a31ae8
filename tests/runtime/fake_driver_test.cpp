// What callers can do wrong on CUDA, against a driver without a device: a status and a message, never a
// crash.
#include "tests/runtime/fake_driver.h"

#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <thread>

#include "db/store.h"
#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"
#include "kernels/device.h"
#include "tests/runtime/message_of.h"
#include "tests/runtime/record_trial.h"
#include "tests/tuner/temporary_folder.h"

namespace knobwise::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLine = "conv2d n=2 c=8 h=20 w=20 k=16 r=3 s=3 bias | relu";

class FakeDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_driver().launch_result = CUDA_SUCCESS;
    // With machine code on record nothing is compiled, and what the tuner verified is not run again.
    const std::unique_ptr<Device> device = open_device("cuda:0");
    const Problem problem = Problem::parse(kLine);
    const KernelFamily& family = *find_family(Backend::cuda, "direct_conv");
    const BoundSpace space = bind_space(family, problem, device->info());
    Store store = Store::open(database_, Store::Mode::read_write);
    const std::int64_t trial =
        record_trial(store, device->info(), problem, family, space.configuration(space.default_index()), 10,
                     ErrorMetrics{.checked = 1});
    store.put_code(trial, "machine code");
  }

  DispatcherOptions options(const char* device = "cuda:0") {
    return {.databases = {database_},
            .device = device,
            .code_cache = folder_ / "code",
            .on_new_plan = [](const PlanDescription&) {}};
  }

  /// A plan with its tensors, in memory of one device.
  struct Run {
    explicit Run(Plan made, int device = 0) : plan(std::move(made)) {
      for (const ParameterSpec& spec : plan.problem().parameters()) {
        const std::size_t bytes = static_cast<std::size_t>(spec.elements()) * 4;
        parameters.emplace_back(fake_driver().allocate(device, bytes), bytes);
      }
      input = {fake_driver().allocate(device, plan.input_bytes()), plan.input_bytes()};
      output = {fake_driver().allocate(device, plan.output_bytes()), plan.output_bytes()};
    }
    Plan plan;
    std::vector<ConstBuffer> parameters;
    ConstBuffer input;
    MutableBuffer output;
  };

  TemporaryFolder folder_;
  std::filesystem::path database_ = folder_ / "tuned.db";
};

TEST_F(FakeDriverTest, StoredCodeServesWithoutCompilerOrVerification) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  EXPECT_EQ(run.plan.description().provenance, Provenance::exact) << run.plan.description().to_json();
  EXPECT_TRUE(run.plan.description().stored_code);
  run.plan.prepare(run.parameters);
  const int before = fake_driver().launches;
  run.plan.run(run.input, run.output);
  EXPECT_GT(fake_driver().launches, before);
}

TEST_F(FakeDriverTest, HostMemoryIsNoDeviceMemory) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  alignas(64) static float host[1 << 16];
  const std::size_t in = run.plan.input_bytes(), out = run.plan.output_bytes();
  ASSERT_LE(std::max(in, out), sizeof host);
  EXPECT_THAT(message_of([&] {
                run.plan.prepare({{host, sizeof host}, run.parameters[1]});
              }),
              HasSubstr("weights: no device memory"));
  run.plan.prepare(run.parameters);
  const int before = fake_driver().launches;
  EXPECT_THAT(message_of([&] {
                run.plan.run({host, in}, run.output);
              }),
              HasSubstr("input: no device memory"));
  EXPECT_THAT(message_of([&] {
                run.plan.run(run.input, {host, out});
              }),
              HasSubstr("output: no device memory"));
  EXPECT_EQ(fake_driver().launches, before);
  run.plan.run(run.input, run.output);
}

TEST_F(FakeDriverTest, MemoryOfAnotherDeviceIsRefused) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  const ConstBuffer elsewhere(fake_driver().allocate(1, run.plan.input_bytes()), run.plan.input_bytes());
  EXPECT_THAT(message_of([&] { run.plan.run(elsewhere, run.output); }), HasSubstr("memory of cuda:1"));
}

TEST_F(FakeDriverTest, AnAllocationThatEndsTooEarlyIsRefusedWhateverTheCallerSays) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  void* small = fake_driver().allocate(0, run.plan.output_bytes() - 4);
  EXPECT_THAT(message_of([&] {
                run.plan.run(run.input, {small, run.plan.output_bytes()});
              }),
              HasSubstr("allocation ends"));
}

TEST_F(FakeDriverTest, AlignmentAndOverlapsAreChecked) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  const std::size_t in = run.plan.input_bytes(), out = run.plan.output_bytes();
  char* both = static_cast<char*>(fake_driver().allocate(0, in + out));
  EXPECT_THAT(message_of([&] { run.plan.run({both + 4, in}, run.output); }), HasSubstr("aligned"));
  EXPECT_THAT(message_of([&] {
                run.plan.run({both, in}, {both + in / 2 / 16 * 16, out});
              }),
              HasSubstr("overlap"));
  // An output over the weights would spoil every later run.
  const std::size_t weights = run.parameters[0].bytes;
  char* common = static_cast<char*>(fake_driver().allocate(0, std::max(weights, out)));
  run.plan.prepare({{common, weights}, run.parameters[1]});
  EXPECT_THAT(message_of([&] { run.plan.run(run.input, {common, out}); }), HasSubstr("overlaps parameter 0"));
}

TEST_F(FakeDriverTest, AStreamOfAnotherDeviceOrContextIsRefused) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  for (CUstream wrong : {fake_driver().stream(1), fake_driver().foreign_stream(0)}) {
    EXPECT_THAT(message_of([&] { run.plan.prepare(run.parameters, wrong); }), HasSubstr("stream: "));
    run.plan.prepare(run.parameters);
    EXPECT_THAT(message_of([&] { run.plan.run(run.input, run.output, wrong); }), HasSubstr("stream: "));
  }
  run.plan.run(run.input, run.output, fake_driver().stream(0));
  run.plan.run(run.input, run.output, CU_STREAM_PER_THREAD);
}

TEST_F(FakeDriverTest, TheDriverIsAskedOnceForTheSameArguments) {
  Dispatcher dispatcher(options());
  Run run(dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  run.plan.run(run.input, run.output);
  const int questions = fake_driver().pointer_questions;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) run.plan.run(run.input, run.output);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_driver().pointer_questions, questions);
  run.plan.run(run.input, run.output, fake_driver().stream(0));
  EXPECT_GT(fake_driver().pointer_questions, questions);
}

TEST_F(FakeDriverTest, DevicesHavePlansOfTheirOwn) {
  Dispatcher zero(options("cuda:0")), one(options("cuda:1"));
  Run on_zero(zero.plan(kLine), 0), on_one(one.plan(kLine), 1);
  EXPECT_EQ(on_one.plan.description().provenance, Provenance::exact) << "an equal device answers for it";
  on_zero.plan.prepare(on_zero.parameters);
  on_one.plan.prepare(on_one.parameters);
  on_zero.plan.run(on_zero.input, on_zero.output);
  on_one.plan.run(on_one.input, on_one.output);
  EXPECT_THAT(message_of([&] { on_one.plan.run(on_zero.input, on_one.output); }),
              HasSubstr("memory of cuda:0, but the plan runs on cuda:1"));
  EXPECT_EQ(fake_driver().stale_uses, 0);
}

// Dispatchers that come and go, plans that outlive them, refreshes and mistakes, all at once on two devices.
TEST_F(FakeDriverTest, ThreadsDoEverythingAtOnce) {
  Dispatcher dispatchers[] = {Dispatcher(options("cuda:0")), Dispatcher(options("cuda:1"))};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  constexpr int kThreads = 6, kRounds = 20;
  const auto work = [&](int thread) {
    std::optional<Run> kept;
    for (int round = 0; round < kRounds; ++round) {
      const int device = (thread + round) % 2;
      std::optional<Dispatcher> own;
      if (round % 5 == 0) own.emplace(options(device == 0 ? "cuda:0" : "cuda:1"));
      Run run((own ? *own : dispatchers[device]).plan(kLine), device);
      own.reset();
      run.plan.prepare(run.parameters);
      run.plan.run(run.input, run.output);
      const ConstBuffer elsewhere(fake_driver().allocate(1 - device, run.input.bytes), run.input.bytes);
      const std::string message = message_of([&] { run.plan.run(elsewhere, run.output); });
      if (message.starts_with("input: memory of cuda:")) ++refused;
      if (kept) kept->plan.run(kept->input, kept->output);
      if (round % 4 == 0) dispatchers[device].refresh();
      if (round % 3 == 0) kept.emplace(std::move(run));
    }
  };
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, kThreads * kRounds);
  EXPECT_EQ(fake_driver().stale_uses, 0);
}

TEST_F(FakeDriverTest, AResetDeviceIsAnErrorUntilADispatcherOpensItAgain) {
  const int stale = fake_driver().stale_uses;
  for (const bool opened_again : {false, true}) {
    Dispatcher dispatcher(options());
    Run run(dispatcher.plan(kLine));
    run.plan.prepare(run.parameters);
    run.plan.run(run.input, run.output);
    fake_driver().reset_device(0);
    std::optional<Dispatcher> again;
    if (opened_again) again.emplace(options());
    try {
      run.plan.run(run.input, run.output);
      FAIL() << "the code is gone";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("context was destroyed"));
    }
    EXPECT_THROW(run.plan.prepare(run.parameters), std::runtime_error);
    if (!again) again.emplace(options());
    Run fresh(again->plan(kLine));
    fresh.plan.prepare(fresh.parameters);
    fresh.plan.run(fresh.input, fresh.output);
  }
  EXPECT_EQ(fake_driver().stale_uses, stale) << "what is gone is neither used nor freed";
}

TEST_F(FakeDriverTest, AFaultOfTheDeviceIsAStatusInC) {
  const std::string path = database_.string();
  const char* databases[] = {path.c_str()};
  knobwise_dispatcher* dispatcher = nullptr;
  ASSERT_EQ(knobwise_open(databases, 1, "cuda:0", &dispatcher), KNOBWISE_OK) << knobwise_last_error();
  knobwise_plan* plan = nullptr;
  ASSERT_EQ(knobwise_plan_create(dispatcher, kLine, nullptr, &plan), KNOBWISE_OK);
  Dispatcher other(options());
  const Run tensors(other.plan(kLine));
  std::vector<knobwise_const_buffer> parameters;
  for (const ConstBuffer& buffer : tensors.parameters) parameters.push_back({buffer.data, buffer.bytes});
  ASSERT_EQ(knobwise_plan_prepare(plan, parameters.data(), parameters.size(), nullptr), KNOBWISE_OK);
  const knobwise_const_buffer input = {tensors.input.data, tensors.input.bytes};
  const knobwise_buffer output = {tensors.output.data, tensors.output.bytes}, none = {nullptr, 0};

  alignas(16) static float host[1 << 16];
  EXPECT_EQ(knobwise_plan_run(plan, {host, sizeof host}, output, none, nullptr), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("input"));
  fake_driver().launch_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(knobwise_plan_run(plan, input, output, none, nullptr), KNOBWISE_DEVICE_ERROR);
  fake_driver().launch_result = CUDA_SUCCESS;
  EXPECT_EQ(knobwise_plan_run(plan, input, output, none, nullptr), KNOBWISE_DEVICE_ERROR);
  EXPECT_THAT(knobwise_last_error(), HasSubstr("unusable"));
  knobwise_plan_destroy(plan);
  knobwise_close(dispatcher);
}

}  // namespace
}  // namespace knobwise::test
