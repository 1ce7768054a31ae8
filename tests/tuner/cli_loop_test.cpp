// The whole loop on the CPU: tune, store, look up in a new process, run, report; interruption and going on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "db/store.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kProblem = "conv2d n=2 c=5 h=17 w=19 k=12 r=3 s=3 pad=1 bias | leaky_relu 0.5";

class Loop : public testing::Test {
 protected:
  CommandResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--db", folder_ / "loop.db"});
    return knobwise(arguments, folder_);
  }
  json tune(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"tune", kProblem, "--device", "cpu", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? json::parse(result.out) : json();
  }
  TemporaryFolder folder_;
};

TEST_F(Loop, TunesStoresLooksUpRunsAndReports) {
  const json tuned = tune({"--max-trials", "4"});
  ASSERT_TRUE(tuned.contains("best"));
  EXPECT_GT(tuned.at("best").at("time_us"), 0);
  EXPECT_EQ(tuned.at("state"), "finished");

  const CommandResult best = run({"best", kProblem, "--device", "cpu", "--json"});
  ASSERT_EQ(best.status, 0) << best.err;
  const json found = json::parse(best.out);
  EXPECT_EQ(found.at("configuration"), tuned.at("best").at("configuration"));
  EXPECT_EQ(found.at("provenance").at("kind"), "exact");
  EXPECT_EQ(found.at("errors").size(), 3u);

  const CommandResult ran = run({"run", kProblem, "--device", "cpu", "--allow", "exact", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json outcome = json::parse(ran.out);
  EXPECT_EQ(outcome.at("provenance"), "exact");
  EXPECT_EQ(outcome.at("run").at("accepted"), true);
  EXPECT_EQ(outcome.at("run").at("frac_outside"), 0);

  const CommandResult table = run({"run", "--all", "--device", "cpu", "--allow", "exact"});
  ASSERT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr(kProblem));

  const std::string stranger = "conv2d n=1 c=1 h=9 w=9 k=1 r=3 s=3";
  const CommandResult nothing = run({"run", stranger, "--device", "cpu", "--allow", "exact"});
  EXPECT_EQ(nothing.status, 1);
  EXPECT_THAT(nothing.err, HasSubstr("store a result: knobwise tune '" + stranger + "' --db"));

  const CommandResult report = run({"report", "-o", folder_ / "report.html"});
  ASSERT_EQ(report.status, 0) << report.err;
  EXPECT_THAT(read_file(folder_ / "report.html"), HasSubstr("<html"));

  const CommandResult info = run({"db", "info", "--json"});
  ASSERT_EQ(info.status, 0) << info.err;
  EXPECT_EQ(json::parse(info.out).at(0).at("problems"), 1);
}

TEST_F(Loop, OneConfigurationIsMeasuredAgainByName) {
  const json tuned = tune({"--max-trials", "3", "--family", "direct_conv"});
  const json configuration = tuned.at("best").at("configuration");
  // Knobs may come in any order; another database knows nothing of it.
  const TemporaryFolder other;
  const CommandResult again =
      knobwise({"tune", kProblem, "--device", "cpu", "--json", "--family", "direct_conv", "--configuration",
                configuration.dump(), "--db", other / "again.db"},
               folder_);
  ASSERT_EQ(again.status, 0) << again.err;
  const json repeated = json::parse(again.out);
  EXPECT_EQ(repeated.at("evaluated"), 1);
  EXPECT_EQ(repeated.at("best").at("configuration"), configuration);
  EXPECT_GT(repeated.at("best").at("time_us"), 0);
}

TEST_F(Loop, AConfigurationThatIsNoneIsRefusedWithTheReason) {
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"tune", kProblem, "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_THAT(refused({"--configuration", "{}"}), HasSubstr("name it with --family"));
  EXPECT_THAT(refused({"--family", "direct_conv", "--configuration", "tile_w=3"}),
              HasSubstr("is no JSON object"));
  EXPECT_THAT(refused({"--family", "direct_conv", "--configuration", R"({"tile_w":3})"}),
              HasSubstr("--configuration: "));
  EXPECT_THAT(refused({"--family", "direct_conv", "--configuration", R"({"no_knob":[1]})"}),
              HasSubstr("knobwise: "));
}

TEST_F(Loop, ACalibratedDeviceTellsHowCloseTheBestComes) {
  ASSERT_EQ(run({"devices", "--calibrate", "--device", "cpu"}).status, 0);
  const json tuned = tune({"--max-trials", "1", "--family", "direct_conv"});
  const json floor = tuned.at("best").at("floor");
  EXPECT_EQ(floor.at("measured"), true);
  EXPECT_GT(floor.at("time_us"), 0);
  // The problem fits the caches, so the memory's ceiling is none for it; the arithmetic's is.
  if (floor.at("resource") == "fp32") {
    EXPECT_LT(floor.at("time_us"), 1.2 * tuned.at("best").at("time_us").get<double>());
  }
  EXPECT_EQ(json::parse(run({"best", kProblem, "--device", "cpu", "--json"}).out).at("floor"), floor);
  EXPECT_THAT(run({"best", kProblem, "--device", "cpu"}).out, HasSubstr("% of what "));
}

TEST_F(Loop, AFinishedSessionRunAgainMeasuresNothing) {
  const json first = tune({"--max-trials", "3", "--seed", "7"});
  const json again = tune({"--max-trials", "3", "--seed", "7"});
  EXPECT_GT(first.at("evaluated"), 0);
  EXPECT_EQ(again.at("evaluated"), 0);
  EXPECT_EQ(again.at("reused"), first.at("evaluated"));
  EXPECT_EQ(again.at("best"), first.at("best"));
}

// A compiler that notes every compilation in a file before it does it.
class CountingCompiler {
 public:
  explicit CountingCompiler(const TemporaryFolder& folder) : log_(folder / "compilations") {
    const std::filesystem::path script = folder / "cxx";
    std::ofstream(script) << "#!/bin/sh\ncase \"$*\" in *kernel.cpp*) echo x >> '" << log_.string()
                          << "';; esac\nexec c++ \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    setenv("KNOBWISE_CXX", script.c_str(), 1);
  }
  ~CountingCompiler() { unsetenv("KNOBWISE_CXX"); }
  std::size_t compilations() const { return read_file(log_).size() / 2; }

 private:
  std::filesystem::path log_;
};

TEST_F(Loop, AFreshDatabaseCompilesNothingAgainUntilTheCacheIsCleared) {
  setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
  const CountingCompiler compiler(folder_);
  const auto sweep = [&](const std::string& database) {
    const CommandResult result =
        knobwise({"tune", kProblem, "--device", "cpu", "--family", "direct_conv", "--strategy", "random",
                  "--max-trials", "3", "--db", folder_ / database},
                 folder_);
    EXPECT_EQ(result.status, 0) << result.err;
  };
  const auto cached = [&] {
    const CommandResult result = knobwise({"cache", "info", "--json"}, folder_);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(result.out).at("files").get<int>();
  };
  sweep("first.db");
  EXPECT_EQ(compiler.compilations(), 3u);
  EXPECT_EQ(cached(), 3);
  sweep("second.db");
  EXPECT_EQ(compiler.compilations(), 3u) << "everything was in the cache";
  EXPECT_THAT(knobwise({"cache", "clear"}, folder_).out, HasSubstr("removed 3 files"));
  EXPECT_EQ(cached(), 0);
  sweep("third.db");
  EXPECT_EQ(compiler.compilations(), 6u);
  unsetenv("KNOBWISE_CACHE");
}

// No fault of any configuration: none is recorded as failed, and the same command works once there is one.
TEST_F(Loop, WhatKeepsEverythingFromCompilingIsOneLineAndNoTrial) {
  setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
  const auto refused = [this] {
    const CommandResult result = run({"tune", kProblem, "--device", "cpu", "--family", "direct_conv"});
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  setenv("KNOBWISE_CXX", "/no/such/compiler", 1);
  EXPECT_THAT(refused(), AllOf(HasSubstr("/no/such/compiler"), HasSubstr("install a C++ compiler")));
  unsetenv("KNOBWISE_CXX");
  setenv("TMPDIR", "/no/such/folder", 1);
  EXPECT_THAT(refused(), HasSubstr("set TMPDIR to a writable folder"));
  unsetenv("TMPDIR");
  const json tuned = tune({"--max-trials", "2", "--family", "direct_conv"});
  EXPECT_EQ(tuned.at("evaluated"), 2);
  EXPECT_EQ(tuned.at("failed"), 0);
  unsetenv("KNOBWISE_CACHE");
}

TEST_F(Loop, ABudgetOfOneTriesTheDefault) {
  const json tuned = tune({"--max-trials", "1", "--family", "direct_conv"});
  EXPECT_EQ(tuned.at("evaluated"), 1);
  EXPECT_TRUE(tuned.at("best").is_object());
}

TEST_F(Loop, TimeLimitsASession) {
  const auto start = std::chrono::steady_clock::now();
  tune({"--max-time", "4"});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 40) << "the limit, what was in flight, and the finalists";
}

TEST_F(Loop, AnInterruptKeepsEveryFinishedTrialAndSaysHowToGoOn) {
  const pid_t pid = start_knobwise(
      {"tune", kProblem, "--device", "cpu", "--max-trials", "1000", "--db", folder_ / "loop.db"}, folder_);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto trials = [&]() -> std::int64_t {
    if (!std::filesystem::exists(folder_ / "loop.db")) return 0;
    try {
      return Store::open(folder_ / "loop.db", Store::Mode::read_only).counts().trials;
    } catch (const std::exception&) {
      return 0;  // not set up yet
    }
  };
  while (trials() < 2 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_GE(trials(), 2) << read_file(folder_ / "err");
  kill(pid, SIGINT);
  const CommandResult result = finish(pid, folder_);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("knobwise tune 'conv2d"));
  const Store store = Store::open(folder_ / "loop.db", Store::Mode::read_only);
  EXPECT_GE(store.counts().trials, 2);
  ASSERT_EQ(store.sessions().size(), 1u);
  EXPECT_EQ(store.sessions().front().record.state, SessionState::interrupted);
}

TEST_F(Loop, ASweepKeepsGoingPastABadLine) {
  std::ofstream(folder_ / "sweep.txt")
      << "conv1d n=1 c=3 w=33 k=4 s=3 | relu\nconv1d nonsense\nconv1d n=1 c=2 w=20 k=3 s=2\n";
  const CommandResult result =
      run({"sweep", folder_ / "sweep.txt", "--device", "cpu", "--max-trials", "1", "--keep-going", "--json"});
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("sweep.txt:2:"));
  const json document = json::parse(result.out);
  ASSERT_EQ(document.size(), 2u);
  EXPECT_TRUE(document.at(0).at("best").is_object());
  EXPECT_TRUE(document.at(1).at("best").is_object());
}

TEST_F(Loop, NothingStoredIsAFailureThatSaysWhatToDo) {
  tune({"--max-trials", "1", "--family", "direct_conv"});
  const CommandResult result = run({"best", "conv1d n=1 c=2 w=20 k=3 s=2", "--device", "cpu"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("knobwise tune"));
}

}  // namespace
}  // namespace knobwise::test
