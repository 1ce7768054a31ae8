// Tuning in the background: results, failures, and that nothing outlives the dispatcher.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* kLine = "conv1d n=1 c=4 w=64 k=8 s=3";
constexpr const char* kOther = "conv1d n=1 c=4 w=96 k=8 s=3";

template <class Condition>
bool within(std::chrono::seconds limit, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// Neither gone nor a zombie.
bool runs(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = stat.rfind(')');
  return end != std::string::npos && stat.substr(end + 2, 1) != "Z";
}

class TuneOnMissTest : public ::testing::Test {
 protected:
  DispatcherOptions options(const std::filesystem::path& executable, double seconds = 1, double limit = 0) {
    return {.databases = {database_},
            .device = "cpu",
            .code_cache = folder_ / "code",
            .tune_on_miss = {.seconds = seconds, .limit_seconds = limit, .executable = executable},
            .on_new_plan = [](const PlanDescription&) {}};
  }

  /// An executable of a few shell lines; `folder` names this test's folder to them.
  std::filesystem::path script(const std::string& lines) {
    const std::filesystem::path path = folder_ / "knobwise";
    std::ofstream(path) << "#!/bin/sh\nfolder='" << path.parent_path().string() << "'\n" << lines << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }

  static TuningStatus status(const Dispatcher& dispatcher, const char* line = kLine) {
    return dispatcher.tuning(Problem::parse(line));
  }
  static bool ended(const Dispatcher& dispatcher, const char* line = kLine) {
    return within(60s, [&] { return status(dispatcher, line).state >= TuningState::finished; });
  }
  /// The process ids that a script has written, one a line.
  std::vector<pid_t> pids() {
    std::istringstream text(read_file(folder_ / "pids"));
    std::vector<pid_t> all;
    for (pid_t pid; text >> pid;) all.push_back(pid);
    return all;
  }

  TemporaryFolder folder_;
  std::filesystem::path database_ = folder_ / "tuned.db";
};

TEST_F(TuneOnMissTest, AMissIsTunedInTheBackgroundAndServesAfterARefresh) {
  Dispatcher dispatcher(options(KNOBWISE_EXECUTABLE, 3));
  EXPECT_EQ(status(dispatcher).state, TuningState::none);
  const Plan before = dispatcher.plan(kLine);
  EXPECT_NE(before.description().provenance, Provenance::exact);
  EXPECT_NE(status(dispatcher).state, TuningState::none);
  ASSERT_TRUE(ended(dispatcher)) << to_string(status(dispatcher).state);
  EXPECT_EQ(status(dispatcher).state, TuningState::finished) << status(dispatcher).message;
  EXPECT_NE(dispatcher.plan(kLine).description().provenance, Provenance::exact) << "not on the hot path";
  dispatcher.refresh();
  const Plan after = dispatcher.plan(kLine);
  EXPECT_EQ(after.description().provenance, Provenance::exact) << after.description().to_json();
  EXPECT_EQ(after.description().database, database_.string());
  EXPECT_GT(after.description().predicted_us, 0);

  // Another dispatcher finds it, and has nothing to tune.
  Dispatcher second(options(KNOBWISE_EXECUTABLE, 3));
  second.plan(kLine);
  EXPECT_EQ(status(second).state, TuningState::none);
}

TEST_F(TuneOnMissTest, PlanDoesNotWait) {
  Dispatcher dispatcher(options(script("sleep 1000")));
  dispatcher.plan(kLine);
  ASSERT_TRUE(within(20s, [&] { return status(dispatcher).state == TuningState::running; }));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) dispatcher.plan(kLine);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  EXPECT_EQ(status(dispatcher).state, TuningState::running);
}

TEST_F(TuneOnMissTest, OneProcessAtATimeOnADeviceAndOnceForEachProblem) {
  const auto executable = script(R"(echo $$ >> "$folder/pids"; echo "$2" >> "$folder/lines"; sleep 1000)");
  Dispatcher first(options(executable)), second(options(executable));
  first.plan(kLine);
  ASSERT_TRUE(within(20s, [&] { return pids().size() == 1; }));
  first.plan(kOther);
  first.plan(kLine, {.max_workspace_bytes = 1 << 20});
  second.plan(kLine);
  ASSERT_TRUE(within(20s, [&] { return !status(second).message.empty(); }));
  EXPECT_EQ(status(second).state, TuningState::waiting);
  EXPECT_EQ(status(first, kOther).state, TuningState::waiting);
  EXPECT_EQ(pids().size(), 1u);
  EXPECT_EQ(read_file(folder_ / "lines"), Problem::parse(kLine).to_string() + "\n");
}

TEST_F(TuneOnMissTest, WithoutAnExecutableItFailsAndPlansGoOn) {
  {
    Dispatcher dispatcher(options(folder_ / "nowhere"));
    EXPECT_NO_THROW(dispatcher.plan(kLine));
    ASSERT_TRUE(ended(dispatcher));
    EXPECT_EQ(status(dispatcher).state, TuningState::failed);
    EXPECT_THAT(status(dispatcher).message, HasSubstr("nowhere"));
  }
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder_ / "empty").c_str(), 1);
  {
    Dispatcher dispatcher(options({}));
    dispatcher.plan(kLine, {.allow = {Provenance::exact, Provenance::reference}});
    ASSERT_TRUE(ended(dispatcher));
    EXPECT_THAT(status(dispatcher).message, HasSubstr("KNOBWISE_EXECUTABLE"));
  }
  setenv("PATH", path.c_str(), 1);
}

TEST_F(TuneOnMissTest, TheEnvironmentNamesTheExecutable) {
  const auto executable = script("echo from the environment >&2; exit 1");
  setenv("KNOBWISE_EXECUTABLE", executable.c_str(), 1);
  Dispatcher dispatcher(options({}));
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_THAT(status(dispatcher).message, HasSubstr("from the environment"));
  unsetenv("KNOBWISE_EXECUTABLE");
}

TEST_F(TuneOnMissTest, AFailureSaysWhyAndIsTriedAgainAfterARefresh) {
  const auto executable = script("echo first >&2; echo 'knobwise: no luck today' >&2; exit 2");
  Dispatcher dispatcher(options(executable));
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_EQ(status(dispatcher).state, TuningState::failed);
  EXPECT_EQ(status(dispatcher).message, "knobwise: no luck today (exit status 2)");
  dispatcher.plan(kLine);
  EXPECT_EQ(status(dispatcher).state, TuningState::failed) << "not again and again";
  script("kill -9 $$");
  dispatcher.refresh();
  EXPECT_EQ(status(dispatcher).state, TuningState::none);
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_THAT(status(dispatcher).message, HasSubstr("signal 9"));
}

TEST_F(TuneOnMissTest, ASearchThatFindsNothingInTimeSaysSo) {
  Dispatcher dispatcher(options(KNOBWISE_EXECUTABLE, 1e-9));
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_EQ(status(dispatcher).state, TuningState::failed);
  EXPECT_THAT(status(dispatcher).message, HasSubstr("no configuration succeeded in the time given"));
}

TEST_F(TuneOnMissTest, AnExecutableThatStoresNothingUsefulHasFailed) {
  Dispatcher dispatcher(options(script("exit 0")));
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_EQ(status(dispatcher).state, TuningState::failed);
  EXPECT_THAT(status(dispatcher).message, HasSubstr(std::string(version())));
}

TEST_F(TuneOnMissTest, WhatHangsBeyondItsLimitIsEndedWithAllItStarted) {
  const auto executable = script(R"(trap '' TERM; echo $$ >> "$folder/pids"
(trap '' TERM; sleep 1000) & echo $! >> "$folder/pids"
while true; do sleep 1; done)");
  Dispatcher dispatcher(options(executable, 0.1, 0.5));
  dispatcher.plan(kLine);
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_EQ(status(dispatcher).state, TuningState::failed);
  EXPECT_THAT(status(dispatcher).message, HasSubstr("limit"));
  ASSERT_EQ(pids().size(), 2u);
  for (const pid_t pid : pids()) EXPECT_TRUE(within(5s, [&] { return !runs(pid); })) << pid;
}

TEST_F(TuneOnMissTest, WhatItSaysTakesLittleMemory) {
  const auto executable = script(
      R"(head -c 67108864 /dev/zero >&2; echo >> "$folder/said"; sleep 1; echo 'the end' >&2; exit 3)");
  Dispatcher dispatcher(options(executable));
  dispatcher.plan(kLine);
  ASSERT_TRUE(within(20s, [&] { return std::filesystem::exists(folder_ / "said"); }));
  const auto stored = [] {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      const std::string target = std::filesystem::read_symlink(entry, closed).string();
      if (target.find("knobwise-tuning") != target.npos) bytes += std::filesystem::file_size(entry, closed);
    }
    return bytes;
  };
  EXPECT_TRUE(within(1s, [&] { return stored() < 1 << 20; })) << stored();
  ASSERT_TRUE(ended(dispatcher));
  EXPECT_EQ(status(dispatcher).message, "the end (exit status 3)");
}

TEST_F(TuneOnMissTest, NoProcessOutlivesTheDispatcher) {
  const auto executable =
      script(R"(echo $$ >> "$folder/pids"; sleep 1000 & echo $! >> "$folder/pids"; wait)");
  std::optional<Plan> plan;
  {
    Dispatcher dispatcher(options(executable));
    plan = dispatcher.plan(kLine);
    dispatcher.plan(kOther);
    ASSERT_TRUE(within(20s, [&] { return pids().size() == 2; }));
  }
  for (const pid_t pid : pids()) EXPECT_TRUE(within(5s, [&] { return !runs(pid); })) << pid;
  EXPECT_EQ(plan->problem(), Problem::parse(kLine)) << "a plan that lives on does not keep it at work";
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(pids().size(), 2u) << "what waited is not begun";
}

TEST_F(TuneOnMissTest, ASearchThatIsCutShortLeavesAWholeDatabase) {
  {
    Dispatcher dispatcher(options(KNOBWISE_EXECUTABLE, 1000));
    dispatcher.plan(kLine);
    ASSERT_TRUE(within(30s, [&] { return std::filesystem::exists(database_); }));
    std::this_thread::sleep_for(1s);
  }
  const CommandResult check = knobwise({"db", "check", "--db", database_.string()}, folder_);
  EXPECT_EQ(check.status, 0) << check.out << check.err;
}

TEST_F(TuneOnMissTest, AnApplicationThatDiesTakesTheSearchWithIt) {
  const pid_t pid = fork();
  if (pid == 0) {
    Dispatcher dispatcher(options(KNOBWISE_EXECUTABLE, 1000));
    dispatcher.plan(kLine);
    while (true) std::this_thread::sleep_for(1s);
  }
  const auto children = [&] {
    // Processes that name this test's database.
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const pid_t candidate = std::atoi(entry.path().filename().c_str());
      if (candidate > 0 && candidate != pid && runs(candidate) &&
          read_file(entry.path() / "cmdline").find(database_.string()) != std::string::npos)
        found.push_back(candidate);
    }
    return found;
  };
  ASSERT_TRUE(within(30s, [&] { return !children().empty() && std::filesystem::exists(database_); }));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(within(30s, [&] { return children().empty(); }));
}

TEST_F(TuneOnMissTest, AForkedChildTunesNothingAndEnds) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts threads";
#endif
  constexpr const char* kAskedByTheParent = "conv1d n=1 c=1 w=16 k=1 s=1";
  std::optional<Dispatcher> dispatcher(options(script("sleep 100"), 1000));
  dispatcher->plan(kAskedByTheParent);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    dispatcher->plan(kLine);
    const bool failed = status(*dispatcher).state == TuningState::failed &&
                        status(*dispatcher, kAskedByTheParent).state == TuningState::failed;
    dispatcher->refresh();
    dispatcher.reset();
    _exit(failed ? 0 : 1);
  }
  int result = 0;
  waitpid(child, &result, 0);
  EXPECT_TRUE(WIFEXITED(result)) << "signal " << WTERMSIG(result);
  EXPECT_EQ(WEXITSTATUS(result), 0);
}

TEST_F(TuneOnMissTest, SettingsThatMakeNoSenseAreUserErrors) {
  DispatcherOptions wrong = options({}, -1);
  EXPECT_THROW(Dispatcher{wrong}, UserError);
  wrong = options({});
  wrong.databases.clear();
  try {
    Dispatcher dispatcher(wrong);
    FAIL() << "there is no database for the results";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("database"));
  }
}

TEST_F(TuneOnMissTest, ThroughTheCInterface) {
  const std::string path = database_.string(), code = (folder_ / "code").string();
  const char* databases[] = {path.c_str()};
  knobwise_options options = {};
  options.databases = databases;
  options.database_count = 1;
  options.device = "cpu";
  options.code_cache = code.c_str();
  options.tune_seconds = 1;
  const std::string executable = script("echo so far >&2; exit 3").string();
  options.tune_executable = executable.c_str();
  std::string decided;
  options.on_new_plan = [](const char* text, void* context) { *static_cast<std::string*>(context) = text; };
  options.context = &decided;
  knobwise_dispatcher* dispatcher = nullptr;
  ASSERT_EQ(knobwise_open_with(&options, &dispatcher), KNOBWISE_OK) << knobwise_last_error();
  knobwise_plan* plan = nullptr;
  ASSERT_EQ(knobwise_plan_create(dispatcher, kLine, nullptr, &plan), KNOBWISE_OK);
  EXPECT_THAT(decided, HasSubstr("\"provenance\":\"family_default\""));
  knobwise_tuning_state state = KNOBWISE_TUNING_NONE;
  char message[64] = "";
  EXPECT_TRUE(within(20s, [&] {
    EXPECT_EQ(knobwise_tuning(dispatcher, kLine, nullptr, &state, message, sizeof message), KNOBWISE_OK);
    return state == KNOBWISE_TUNING_FAILED;
  }));
  EXPECT_STREQ(message, "so far (exit status 3)");
  EXPECT_EQ(knobwise_tuning(dispatcher, kLine, nullptr, &state, message, 3), KNOBWISE_OK);
  EXPECT_STREQ(message, "so");
  EXPECT_EQ(knobwise_tuning(dispatcher, kLine, nullptr, &state, nullptr, 0), KNOBWISE_OK);
  EXPECT_EQ(knobwise_tuning(dispatcher, kOther, nullptr, &state, nullptr, 0), KNOBWISE_OK);
  EXPECT_EQ(state, KNOBWISE_TUNING_NONE);
  EXPECT_EQ(knobwise_tuning(dispatcher, nullptr, nullptr, &state, nullptr, 0), KNOBWISE_INVALID_ARGUMENT);
  EXPECT_EQ(knobwise_tuning(dispatcher, kLine, nullptr, nullptr, nullptr, 0), KNOBWISE_INVALID_ARGUMENT);
  knobwise_plan_destroy(plan);
  knobwise_close(dispatcher);
}

}  // namespace
}  // namespace knobwise::test
