// Plans: preparing, running, checking what callers pass, and the cost of asking again.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "tests/runtime/allocation_count.h"
#include "tests/runtime/fixture.h"
#include "tests/runtime/message_of.h"

namespace knobwise::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLine = "conv2d n=1 c=2 h=6 w=10 k=4 r=3 s=3 bias";

class PlanTest : public RuntimeTest {
 protected:
  Plan scratch_plan(Dispatcher& dispatcher) { return dispatcher.plan(kLine); }
  std::filesystem::path scratch_database() {
    return database("scratch.db", {{.problem = kLine, .configuration = fake_configuration(8, 4096)}});
  }
};

TEST_F(PlanTest, WrongArgumentsAreUserErrorsThatNameTheArgument) {
  Dispatcher dispatcher(options({scratch_database()}));
  Plan plan = dispatcher.plan(kLine);
  Operands operands(plan.problem());
  std::vector<float> scratch(1024);
  const auto parameters = operands.parameter_buffers();
  float* misaligned = operands.input.data() + 1;

  EXPECT_THAT(message_of([&] { plan.run(operands.input, operands.output); }), HasSubstr("prepare()"));
  EXPECT_THAT(message_of([&] { plan.prepare({parameters[0]}); }), HasSubstr("1 parameters given"));
  EXPECT_THAT(message_of([&] { plan.prepare({{nullptr, 0}, parameters[1]}); }), HasSubstr("weights"));
  EXPECT_THAT(message_of([&] { plan.prepare({parameters[0], {parameters[1].data, 4}}); }), HasSubstr("bias"));
  EXPECT_FALSE(plan.prepared());
  plan.prepare(parameters);
  const std::size_t in = plan.input_bytes(), out = plan.output_bytes();
  EXPECT_THAT(message_of([&] { plan.run({nullptr, in}, operands.output); }), HasSubstr("input: a null"));
  EXPECT_THAT(message_of([&] { plan.run({misaligned, in}, operands.output); }), HasSubstr("aligned"));
  EXPECT_THAT(message_of([&] {
                plan.run({operands.input.data(), in - 4}, operands.output);
              }),
              HasSubstr("needed"));
  EXPECT_THAT(message_of([&] {
                plan.run(operands.input, {operands.output.data(), out - 4});
              }),
              HasSubstr("output"));
  EXPECT_THAT(message_of([&] {
                plan.run(operands.input, {operands.input.data(), out});
              }),
              HasSubstr("output"));
  EXPECT_THAT(message_of([&] {
                plan.run(operands.input, operands.output, {scratch.data(), 100});
              }),
              HasSubstr("workspace"));
  EXPECT_THAT(message_of([&] { plan.run(operands.input, operands.output, MutableBuffer{}); }),
              HasSubstr("workspace"));
  EXPECT_THAT(message_of([&] {
                plan.run(operands.input, operands.output, {operands.output.data(), 4096});
              }),
              HasSubstr("overlaps"));
  EXPECT_EQ(machine().runs, 0);
  plan.run(operands.input, operands.output, scratch);
  EXPECT_LT(largest_error(operands), 1e-5);
}

// A plan refers to its parameters: they must not be gone when prepare() returns.
static_assert(!std::is_constructible_v<ConstBuffer, std::vector<float>>);
static_assert(!std::is_constructible_v<MutableBuffer, std::vector<float>>);
static_assert(std::is_constructible_v<ConstBuffer, const std::vector<float>&>);
static_assert(std::is_constructible_v<ConstBuffer, std::span<const float>>);
static_assert(!std::is_constructible_v<MutableBuffer, const std::vector<float>&>);

TEST_F(PlanTest, NumbersOfAnotherSizeThanTheProblemsAreRefused) {
  Dispatcher dispatcher(options({scratch_database()}));
  Plan plan = dispatcher.plan(kLine);
  Operands operands(plan.problem());
  const std::vector<double> doubles(1000);
  std::vector<std::uint16_t> halves(1000);
  const auto parameters = operands.parameter_buffers();
  EXPECT_EQ(message_of([&] {
              plan.prepare({doubles, parameters[1]});
            }),
            "weights: numbers of 8 bytes given, the problem's data type has 4");
  plan.prepare(parameters);
  EXPECT_THAT(message_of([&] { plan.run(doubles, operands.output); }),
              HasSubstr("input: numbers of 8 bytes"));
  EXPECT_THAT(message_of([&] { plan.run(operands.input, halves); }), HasSubstr("output: numbers of 2 bytes"));
  EXPECT_EQ(machine().runs, 0);
  std::vector<std::byte> scratch(plan.workspace_bytes() + 16);
  void* aligned = scratch.data();
  std::size_t space = scratch.size();
  std::align(16, plan.workspace_bytes(), aligned, space);
  plan.run(std::as_bytes(std::span(operands.input)), std::as_writable_bytes(std::span(operands.output)),
           {aligned, space});
  EXPECT_LT(largest_error(operands), 1e-5);
}

TEST_F(PlanTest, OverlapOfInputAndOutputIsRefused) {
  Dispatcher dispatcher(options({}));
  Plan plan = dispatcher.plan("conv1d n=1 c=1 w=64 k=1 s=1");
  std::vector<float> weights(4, 1.0f), tensor(128);
  plan.prepare({weights});
  EXPECT_THAT(message_of([&] {
                plan.run({tensor.data(), 256}, {tensor.data() + 32, 256});
              }),
              HasSubstr("overlap"));
  plan.run({tensor.data(), 256}, {tensor.data() + 64, 256});
  EXPECT_EQ(machine().runs, 4) << "three runs of the verification, then this one";
}

TEST_F(PlanTest, AnOutputOverTheParametersIsRefused) {
  Dispatcher dispatcher(options({}));
  Plan plan = dispatcher.plan("conv1d n=1 c=4 w=64 k=4 s=1");
  std::vector<float> input(256), weights(256 + 16, 1.0f);
  plan.prepare({{weights.data(), 64}});
  EXPECT_THAT(message_of([&] {
                plan.run(input, {weights.data(), 1024});
              }),
              HasSubstr("overlaps parameter 0"));
  plan.run(input, {weights.data() + 16, 1024});
}

TEST_F(PlanTest, SeveralDispatchersAndRefreshesServeManyThreads) {
  const auto path = scratch_database();
  std::vector<std::unique_ptr<Dispatcher>> dispatchers;
  for (int i = 0; i < 3; ++i) {
    DispatcherOptions silent = options({path});
    silent.on_new_plan = [](const PlanDescription&) {};
    dispatchers.push_back(std::make_unique<Dispatcher>(silent));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 30; ++i) {
        Dispatcher& dispatcher = *dispatchers[(t + i) % dispatchers.size()];
        Plan plan = dispatcher.plan(kLine, {.deterministic = i % 2 == 0});
        Operands operands(plan.problem(), t);
        plan.prepare(operands.parameter_buffers());
        plan.run(operands.input, operands.output);
        if (largest_error(operands) > 1e-5) ++wrong;
        if (t == 0 && i % 10 == 9) dispatcher.refresh();
        if (!dispatcher.notes().empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(PlanTest, ParametersArePackedOnceUntilPreparedAgain) {
  Dispatcher dispatcher(options({scratch_database()}));
  Plan plan = dispatcher.plan(kLine);
  Operands first(plan.problem(), 1), second(plan.problem(), 2);
  plan.prepare(first.parameter_buffers());
  for (int i = 0; i < 3; ++i) plan.run(first.input, first.output);
  EXPECT_EQ(machine().prepares, 1);
  EXPECT_LT(largest_error(first), 1e-5);

  plan.prepare(second.parameter_buffers());
  plan.run(second.input, second.output);
  EXPECT_EQ(machine().prepares, 2);
  EXPECT_LT(largest_error(second), 1e-5);
}

TEST_F(PlanTest, TwoPlansOfOneProblemKeepTheirOwnWeights) {
  Dispatcher dispatcher(options({scratch_database()}));
  Plan a = dispatcher.plan(kLine), b = dispatcher.plan(kLine);
  Operands first(a.problem(), 1), second(b.problem(), 2);
  a.prepare(first.parameter_buffers());
  b.prepare(second.parameter_buffers());
  a.run(first.input, first.output);
  b.run(second.input, second.output);
  EXPECT_LT(largest_error(first), 1e-5);
  EXPECT_LT(largest_error(second), 1e-5);
}

TEST_F(PlanTest, PlansOutliveTheirDispatcherAndMove) {
  std::vector<Plan> plans;
  {
    Dispatcher dispatcher(options({}));
    Dispatcher moved = std::move(dispatcher);
    plans.push_back(moved.plan(kLine));
    plans.push_back(moved.plan("conv1d n=1 c=1 w=64 k=1 s=1"));
  }
  for (Plan& plan : plans) {
    Operands operands(plan.problem());
    plan.prepare(operands.parameter_buffers());
    Plan moved = std::move(plan);
    moved.run(operands.input, operands.output);
    EXPECT_LT(largest_error(operands), 1e-5);
  }
}

TEST_F(PlanTest, WhatWasMovedFromSaysSo) {
  Dispatcher dispatcher(options({}));
  Plan plan = dispatcher.plan(kLine);
  Operands operands(plan.problem());
  plan.prepare(operands.parameter_buffers());
  Plan moved = std::move(plan);
  EXPECT_FALSE(plan.prepared());
  EXPECT_THROW(plan.run(operands.input, operands.output), UserError);
  EXPECT_THROW(plan.prepare(operands.parameter_buffers()), UserError);
  EXPECT_THROW(plan.description(), UserError);
  EXPECT_THROW(plan.output_bytes(), UserError);
  const Dispatcher other = std::move(dispatcher);
  EXPECT_THROW(dispatcher.plan(kLine), UserError);
  EXPECT_THROW(dispatcher.refresh(), UserError);
  EXPECT_THROW(dispatcher.notes(), UserError);
  plan = std::move(moved);
  plan.run(operands.input, operands.output);
  EXPECT_LT(largest_error(operands), 1e-5);
}

TEST_F(PlanTest, ProblemsThatNoParserMakesAreRefused) {
  Dispatcher dispatcher(options({}));
  const auto broken = [](auto change) {
    Problem problem = Problem::parse("conv2d n=1 c=4 h=9 w=9 k=8 r=3 s=3 groups=2 | clamp 0 6");
    change(problem);
    return problem;
  };
  const Problem problems[] = {
      broken([](Problem& p) { p.n = -4; }),
      broken([](Problem& p) { p.n = std::int64_t{1} << 62; }),
      broken([](Problem& p) {
        p.in = {1, 0, 0};
      }),
      broken([](Problem& p) { p.in[0] = 2; }),
      broken([](Problem& p) { p.groups = 0; }),
      broken([](Problem& p) { p.groups = 3; }),
      broken([](Problem& p) {
        p.stride = {1, 0, 1};
      }),
      broken([](Problem& p) {
        p.pad = {0, -1, 0};
      }),
      broken([](Problem& p) {
        p.filter = {1, 11, 3};
      }),
      broken([](Problem& p) { p.rank = 9; }),
      broken([](Problem& p) { p.rank = 0; }),
      broken([](Problem& p) {
        p.epilogue[0].numbers = {6, 0};
      }),
      broken([](Problem& p) { p.epilogue[0].numbers = {}; }),
      broken([](Problem& p) {
        p.epilogue[0].numbers = {NAN, 1};
      }),
      broken([](Problem& p) { p.epilogue[0].op = EpilogueOp::group_norm, p.epilogue[0].numbers = {}; }),
  };
  for (const Problem& problem : problems) {
    EXPECT_THROW(dispatcher.plan(problem), UserError) << &problem - problems;
    EXPECT_THROW(dispatcher.plan(PlanKey(problem)), UserError) << &problem - problems;
    EXPECT_THROW(dispatcher.tuning(problem), UserError) << &problem - problems;
  }
}

TEST_F(PlanTest, LimitsOfTheErrorThatNoParserMakesAreRefused) {
  Dispatcher dispatcher(options({scratch_database()}));
  for (const double limit : {-1.0, double{NAN}}) {
    const AccuracyRequirement limits[] = {{limit, {}, {}}, {{}, limit, {}}, {{}, {}, limit}};
    for (const AccuracyRequirement& accuracy : limits) {
      EXPECT_THAT(message_of([&] { dispatcher.plan(kLine, {.accuracy = accuracy}); }),
                  HasSubstr("is not a number of at least 0"));
      EXPECT_THROW(dispatcher.tuning(Problem::parse(kLine), {.accuracy = accuracy}), UserError);
    }
  }
}

TEST_F(PlanTest, AskingAgainNeitherAllocatesNorDecides) {
  Dispatcher dispatcher(options({scratch_database()}));
  const PlanKey key(Problem::parse(kLine));
  const Problem problem = Problem::parse(kLine);
  const Requirement requirement;
  dispatcher.plan(key);
  const int compiles = machine().compiles, verifications = machine().verifications;
  const std::size_t before = allocation_count();
  for (int i = 0; i < 100; ++i) {
    Plan by_key = dispatcher.plan(key);
    Plan by_problem = dispatcher.plan(problem, requirement);
  }
  EXPECT_EQ(allocation_count(), before);
  EXPECT_EQ(machine().compiles, compiles);
  EXPECT_EQ(machine().verifications, verifications);
}

TEST_F(PlanTest, TakesLittleMemory) {
  std::vector<TrialSpec> trials;
  for (int i = 1; i <= 64; ++i)
    trials.push_back({.problem = fmt::format("conv1d n=1 c=2 w={} k=4 s=3 bias | add 1 | relu", 8 * i + 2),
                      .configuration = fake_configuration(8)});
  Dispatcher dispatcher(options({database("tuned.db", trials)}));
  const auto plan = [&](const TrialSpec& trial) { return dispatcher.plan(trial.problem); };
  plan(trials.back());  // reads what all share
  decided_.clear(), decided_.shrink_to_fit();
  const std::size_t before = allocated_bytes();
  for (const TrialSpec& trial : trials) plan(trial);
  decided_.clear(), decided_.shrink_to_fit();
  EXPECT_LT((allocated_bytes() - before) / trials.size(), 1024u);
}

TEST_F(PlanTest, RefreshingForeverTakesNoMoreMemory) {
  Dispatcher dispatcher(options({scratch_database()}));
  const auto refresh_and_plan = [&] {
    dispatcher.refresh();
    dispatcher.plan(kLine);
    decided_.clear(), decided_.shrink_to_fit();
  };
  for (int i = 0; i < 3; ++i) refresh_and_plan();
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < 20; ++i) refresh_and_plan();
  EXPECT_LT(allocated_bytes(), before + 512) << "less than one plan for all of them";
}

TEST_F(PlanTest, AnswersThatComeAndGoTakeNoMoreMemory) {
  const auto path = scratch_database(), away = std::filesystem::path(path.string() + ".away");
  Dispatcher dispatcher(options({path}));
  const auto flip = [&] {
    std::set<Provenance> found;
    for (const bool back : {false, true}) {
      std::filesystem::rename(back ? away : path, back ? path : away);
      dispatcher.refresh();
      found.insert(dispatcher.plan(kLine).description().provenance);
      decided_.clear(), decided_.shrink_to_fit();
    }
    EXPECT_EQ(found.size(), 2u);
  };
  for (int i = 0; i < 3; ++i) flip();
  const std::size_t before = allocated_bytes();
  for (int i = 0; i < 10; ++i) flip();
  EXPECT_LT(allocated_bytes(), before + 512) << "less than one plan for all of them";
}

TEST_F(PlanTest, ThreadsGetTheRightPlansWhileOthersAreDecided) {
  std::vector<TrialSpec> trials;
  std::vector<std::string> lines;
  for (int i = 1; i <= 12; ++i) {
    lines.push_back("conv1d n=1 c=1 w=" + std::to_string(64 * i) + " k=1 s=1");
    if (i % 2) trials.push_back({.problem = lines.back(), .configuration = fake_configuration(1 << (i % 7))});
  }
  Dispatcher dispatcher(options({database("tuned.db", trials)}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 3 * lines.size(); ++i) {
        const std::string& line = lines[(i * 5 + t) % lines.size()];
        const Plan plan = dispatcher.plan(line);
        if (plan.description().problem != Problem::parse(line).to_string()) ++wrong;
        if (t == 0 && i == lines.size()) dispatcher.refresh();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(PlanTest, OnePlanRunsFromManyThreads) {
  Dispatcher dispatcher(options({scratch_database()}));
  Plan plan = dispatcher.plan(kLine);
  const Operands weights(plan.problem(), 1);
  plan.prepare(weights.parameter_buffers());
  std::vector<Operands> operands(4, weights);
  std::vector<std::thread> threads;
  for (Operands& mine : operands) {
    threads.emplace_back([&plan, &mine] {
      for (int i = 0; i < 10; ++i) plan.run(mine.input, mine.output);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Operands& mine : operands) EXPECT_LT(largest_error(mine), 1e-5);
}

}  // namespace
}  // namespace knobwise::test
