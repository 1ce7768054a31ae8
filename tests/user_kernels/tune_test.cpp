// A user's kernel from the command line: tuned, stored, looked up, reported, with every fault isolated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>

#include "db/store.h"
#include "tests/user_kernels/executable.h"
// After the executable that it runs.
#include "tests/tuner/command.h"
#include "tests/user_kernels/files.h"

namespace knobwise::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class UserTuning : public testing::Test {
 protected:
  void SetUp() override {
    setenv("KNOBWISE_CACHE", (output_ / "cache").c_str(), 1);
    files_.write("double.cpp", std::string(kDoubleSource));
  }

  CommandResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--db", output_ / "user.db"});
    return knobwise(arguments, output_);
  }
  CommandResult tune(const json& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"tune", "--kernel", files_.write("my.T1.json", file).string(),
                                       "--jobs", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  // Status of every trial by the knob `variant`.
  std::map<std::int64_t, TrialStatus> statuses() {
    const Store store = Store::open(output_ / "user.db", Store::Mode::read_only);
    std::map<std::int64_t, TrialStatus> result;
    for (const auto& [id, session] : store.sessions()) {
      for (const TrialRecord& trial : store.session_trials(id))
        result[json::parse(trial.configuration).at("variant").get<std::int64_t>()] = trial.status;
    }
    return result;
  }

  TemporaryFolder output_;
  KernelFolder files_;
};

TEST_F(UserTuning, TheExampleIsTunedStoredLookedUpAndReported) {
  const std::string file = "examples/transpose/transpose.cpp.T1.json";
  const CommandResult tuned =
      run({"tune", "--kernel", file, "--problem-size", "300x200", "--max-trials", "6", "--json"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const json result = json::parse(tuned.out);
  EXPECT_EQ(result.at("problem"), "user:transpose size=300x200");
  EXPECT_EQ(result.at("evaluated"), 6);
  EXPECT_EQ(result.at("failed"), 0) << tuned.err;
  EXPECT_EQ(result.at("best").at("family"), "user:transpose");
  EXPECT_TRUE(result.at("baselines").contains("user:transpose default"));

  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"best", "user:transpose size=300x200", "--device", "cpu", "--json"},
        std::vector<std::string>{"best", "--kernel", file, "--problem-size", "300x200", "--json"}}) {
    const CommandResult best = run(words);
    ASSERT_EQ(best.status, 0) << best.err;
    EXPECT_EQ(json::parse(best.out).at("configuration"), result.at("best").at("configuration"));
  }
  const CommandResult other = run({"best", "--kernel", file});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("nothing stored for 'user:transpose size=2048x2048'"));
  EXPECT_THAT(other.err, HasSubstr("tune it: knobwise tune --kernel"));

  const CommandResult info = run({"db", "info"});
  EXPECT_THAT(info.out, HasSubstr("problem: user:transpose size=300x200"));
  const CommandResult report = run({"report", "-o", output_ / "report.html"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(read_file(output_ / "report.html"), HasSubstr("<html"));
  EXPECT_EQ(run({"report", "-o", output_ / "one.html", "--problem", "user:transpose size=300x200"}).status,
            0);
  EXPECT_EQ(run({"report", "-o", output_ / "one.html", "--problem", "user:transpose size=1"}).status, 2);
}

TEST_F(UserTuning, RunAgainItMeasuresNothing) {
  ASSERT_EQ(tune(double_kernel()).status, 0);
  const json again = json::parse(tune(double_kernel(), {"--json"}).out);
  EXPECT_EQ(again.at("evaluated"), 0);
  EXPECT_EQ(again.at("reused"), 3);
  // Another value of a knob costs only its own trials; another source makes all stale.
  json file = double_kernel();
  file["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[32, 64, 128, 256]";
  EXPECT_EQ(json::parse(tune(file, {"--json"}).out).at("evaluated"), 1);
  files_.write("double.cpp", std::string("// changed\n") + kDoubleSource);
  EXPECT_EQ(json::parse(tune(file, {"--json"}).out).at("evaluated"), 4);
}

TEST_F(UserTuning, EveryFaultCostsItsTrialAndNoOther) {
  json file = double_kernel();
  file["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[128]";
  file["ConfigurationSpace"]["TuningParameters"][1]["Values"] = "[0, 1, 2, 3, 4, 5, 6, 8]";
  const CommandResult result = tune(file, {"--strategy", "exhaustive", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("failed"), 5) << result.err;
  EXPECT_THAT(statuses(),
              testing::UnorderedElementsAre(
                  testing::Pair(0, TrialStatus::ok), testing::Pair(1, TrialStatus::wrong_result),
                  testing::Pair(2, TrialStatus::wrong_result), testing::Pair(3, TrialStatus::out_of_bounds),
                  testing::Pair(4, TrialStatus::crashed),
                  // It writes into its input, too late for its own result; the next trial has fresh data.
                  testing::Pair(5, TrialStatus::ok), testing::Pair(6, TrialStatus::compile_failed),
                  testing::Pair(8, TrialStatus::ok)));
}

TEST_F(UserTuning, ComparesWithGivenOutput) {
  json file = double_kernel();
  file["KernelSpecification"]["Arguments"][1].merge_patch({{"FillType", "Generator"}, {"DataSource", "i"}});
  file["KernelSpecification"]["ReferenceArguments"] = {
      {{"Name", "expected"}, {"TargetName", "y"}, {"FillType", "Generator"}, {"DataSource", "2 * i"}}};
  EXPECT_EQ(tune(file).status, 0);
  file["KernelSpecification"]["ReferenceArguments"][0]["DataSource"] = "2 * i + (i == 999) * 10000";
  const CommandResult wrong = tune(file);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.out, HasSubstr("no configuration succeeded"));

  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const float value = 2.0f * static_cast<float>(i);
    expected.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  files_.write("expected.bin", expected);
  file["KernelSpecification"]["ReferenceArguments"] = {
      {{"Name", "expected"}, {"TargetName", "y"}, {"FillType", "BinaryRaw"}, {"DataSource", "expected.bin"}}};
  EXPECT_EQ(tune(file).status, 0);
}

TEST_F(UserTuning, ComparesWithAReferenceKernel) {
  files_.write("plain.cpp", std::string("void plain(float* y, const float* x, int n) {\n"
                                        "  for (int i = 0; i < n; ++i) y[i] = FACTOR * x[i];\n}\n"));
  json file = double_kernel();
  file["KernelSpecification"]["ReferenceKernel"] = {{"KernelFile", "plain.cpp"},
                                                    {"KernelName", "plain"},
                                                    {"CompilerOptions", {"-DFACTOR=2"}},
                                                    {"GridDivX", {"1000"}}};
  EXPECT_EQ(tune(file).status, 0);
  file["KernelSpecification"]["ReferenceKernel"]["CompilerOptions"] = {"-DFACTOR=3"};
  EXPECT_EQ(tune(file).status, 1);
}

TEST_F(UserTuning, AReferenceThatFailsIsOneClearError) {
  json file = double_kernel();
  file["ConfigurationSpace"]["TuningParameters"][1]["Values"] = "[6]";
  file["ConfigurationSpace"]["TuningParameters"][1]["Default"] = 6;
  const CommandResult compiled = tune(file);
  EXPECT_EQ(compiled.status, 2);
  EXPECT_THAT(compiled.err,
              HasSubstr("my.T1.json: the default configuration, which the results are compared with, "
                        "fails (compile_failed)"));
  EXPECT_THAT(compiled.err, HasSubstr("no such variant"));
  file = double_kernel();
  files_.write("double.cpp", std::string("void double_all(float*, const float*, int) {}"));
  const CommandResult unwritten = tune(file);
  EXPECT_EQ(unwritten.status, 2);
  EXPECT_THAT(unwritten.err, HasSubstr("writes nothing to y"));
}

TEST_F(UserTuning, AReferenceThatEndsTheProcessIsOneClearError) {
  for (const char* body : {"*(volatile int*)0 = 1;", "_exit(0);"}) {
    files_.write(
        "double.cpp",
        std::string("#include <unistd.h>\nvoid double_all(float*, const float*, int) { ") + body + " }");
    const CommandResult result = tune(double_kernel());
    EXPECT_EQ(result.status, 2) << body;
    EXPECT_THAT(result.err, HasSubstr("my.T1.json: while the kernel ran that the results are compared with"));
    EXPECT_THAT(result.err, HasSubstr("give ReferenceArguments or a ReferenceKernel"));
  }
}

TEST_F(UserTuning, AReferenceThatDoesNotEndCanBeInterrupted) {
  files_.write("double.cpp",
               std::string("void double_all(float*, const float*, int) { for (;;) asm volatile(\"\"); }"));
  const pid_t pid = start_knobwise({"tune", "--kernel", files_.write("my.T1.json", double_kernel()).string(),
                                    "--jobs", "1", "--db", output_ / "user.db"},
                                   output_);
  usleep(3'000'000);
  kill(pid, SIGINT);
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = finish(pid, output_);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
}

TEST_F(UserTuning, WhatOnlySomeConfigurationsWriteIsSaidOfBoth) {
  files_.write("double.cpp",
               std::string("void double_all(float* y, const float* x, int n) {\n"
                           "  for (int i = 0; i < (piece == 128 ? 1 : n); ++i) y[i] = 2 * x[i];\n}\n"));
  json file = double_kernel();
  const CommandResult result = tune(file, {"--strategy", "exhaustive"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Store store = Store::open(output_ / "user.db", Store::Mode::read_only);
  int failed = 0;
  for (const TrialRecord& trial : store.session_trials(store.sessions().front().id)) {
    if (trial.status == TrialStatus::ok) continue;
    ++failed;
    EXPECT_THAT(trial.reason, HasSubstr("or the other way round"));
  }
  EXPECT_EQ(failed, 2);
}

TEST_F(UserTuning, AKernelThatReadsItsOutputGetsItFreshEveryTime) {
  json file = double_kernel();
  file["KernelSpecification"]["Arguments"][0].merge_patch(
      {{"AccessType", "ReadWrite"}, {"FillType", "Constant"}, {"FillValue", 1}});
  files_.write("double.cpp",
               std::string("void double_all(float* y, const float* x, int n) {\n"
                           "  const int begin = blockIdx.x * piece;\n"
                           "  for (int i = begin; i < begin + piece && i < n; ++i) y[i] += x[i];\n}\n"));
  const CommandResult result = tune(file, {"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(json::parse(result.out).at("failed"), 0);
}

TEST_F(UserTuning, AnotherSizeBeginsWithWhatWasFastest) {
  ASSERT_EQ(tune(double_kernel(), {"--strategy", "exhaustive"}).status, 0);
  ASSERT_EQ(tune(double_kernel(), {"--problem-size", "900", "--max-trials", "3"}).status, 0);
  const Store store = Store::open(output_ / "user.db", Store::Mode::read_only);
  const auto sessions = store.sessions();
  ASSERT_EQ(sessions.size(), 2u);
  std::vector<std::pair<double, std::string>> first;
  for (const TrialRecord& trial : store.session_trials(sessions[0].id))
    first.emplace_back(trial.timing.value_or(TimingRecord{}).time_us, trial.configuration);
  std::sort(first.begin(), first.end());
  std::vector<std::string> expected;
  for (const auto& [time, configuration] : first) expected.push_back(configuration);
  std::stable_partition(expected.begin(), expected.end(), [](const std::string& configuration) {
    return configuration.find("128") != std::string::npos;  // the default, which every session tries first
  });
  std::vector<std::string> proposed;
  for (const TrialRecord& trial : store.session_trials(sessions[1].id))
    proposed.push_back(trial.configuration);
  EXPECT_EQ(proposed, expected);
}

TEST_F(UserTuning, WrongRequestsSayWhatToDo) {
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& message) {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  };
  const std::string file = files_.write("my.T1.json", double_kernel());
  expect({"tune"}, "give a problem, or a kernel of your own with --kernel");
  expect({"tune", "conv1d n=1 c=1 w=9 k=1 s=1", "--kernel", file}, "give either a problem or --kernel");
  expect({"tune", "--kernel", file, "--problem-size", "12y"}, "--problem-size: '12y' is no size");
  expect({"tune", "conv1d n=1 c=1 w=9 k=1 s=1", "--problem-size", "12"},
         "--problem-size belongs to --kernel");
  expect({"tune", "user:double_it size=1000"}, "give its file with --kernel");
  expect({"tune", "user:", "--device", "cpu"}, "needs the name of a kernel");
  expect({"run", "user:double_it size=1000", "--device", "cpu"}, "is a user's own kernel");
  expect({"tune", "--kernel", file, "--family", "direct_conv"}, "--family does not go with --kernel");
  expect({"tune", "--kernel", ""}, "--kernel: the path is empty");
  expect({"tune", "--kernel", "none.T1.json"}, "none.T1.json: cannot be read");
  expect({"tune", "--kernel", file, "--device", "cuda:0"}, "there is no device 'cuda:0' here; there is: cpu");
}

TEST_F(UserTuning, RunAllLeavesUsersKernelsOut) {
  ASSERT_EQ(tune(double_kernel(), {"--max-trials", "1"}).status, 0);
  const CommandResult result = run({"run", "--all", "--device", "cpu"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("nothing was tuned"));
}

}  // namespace
}  // namespace knobwise::test
