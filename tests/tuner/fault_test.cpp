// Bad configurations, killed workers and killed sessions: each costs what it must and no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "db/store.h"
#include "kernels/code_cache.h"
#include "kernels/device.h"
#include "tests/tuner/fault_family.h"
#include "tests/tuner/processes.h"
#include "tests/tuner/self_worker.h"
#include "tests/tuner/silent.h"
#include "tuner/session.h"

namespace knobwise::test {
namespace {

using namespace std::chrono_literals;

const Problem& problem() {
  static const Problem value = Problem::parse("conv1d n=1 c=1 w=1000 k=1 s=1");
  return value;
}

// The kinds of SpinFamily to search, as a JSON array.
void choose_kinds(const char* kinds) {
  setenv("KNOBWISE_TEST_KINDS", kinds, 1);
}

struct Outcome {
  TrialStatus status;
  std::string reason;  // a part of it
};

// What becomes of the configurations of FaultFamily.
const std::map<std::string, Outcome>& outcomes() {
  static const std::map<std::string, Outcome> expected = {
      {"none", {TrialStatus::ok, ""}},
      {"does_not_compile", {TrialStatus::compile_failed, "error"}},
      {"compiler_hangs", {TrialStatus::compile_timeout, "4 s"}},
      {"wrong", {TrialStatus::wrong_result, "relative error"}},
      {"nan", {TrialStatus::wrong_result, "NaN"}},
      {"unwritten", {TrialStatus::wrong_result, "never written"}},
      {"reads_behind", {TrialStatus::wrong_result, "NaN"}},
      {"reads_before", {TrialStatus::wrong_result, "NaN"}},
      {"writes_behind", {TrialStatus::out_of_bounds, "output"}},
      {"writes_before", {TrialStatus::out_of_bounds, "output"}},
      {"crashes", {TrialStatus::crashed, "signal 11"}},
      {"exits", {TrialStatus::crashed, "exit status 3"}},
      {"loops", {TrialStatus::timeout, "stopped after"}},
  };
  return expected;
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    adopt_orphans();
    register_test_families();
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
    setenv("KNOBWISE_TEST_FIFO", (folder_ / "fifo").c_str(), 1);
    setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    EXPECT_EQ(left_behind(), std::set<pid_t>());
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  SessionOptions options(int jobs = 2) {
    SessionOptions options;
    options.executable = "/proc/self/exe";
    options.devices = {{"cpu", list_devices(nullptr).front()}};
    options.strategy = "exhaustive";
    options.families = {"faulty"};
    options.jobs = jobs;
    options.compile_limit_seconds = 4;
    options.run_limit_seconds = 3;
    options.accuracy = AccuracyRequirement::parse("allclose");
    return options;
  }
  std::filesystem::path database() const { return folder_ / "faults.db"; }

  std::map<std::string, std::vector<TrialRecord>> trials_by_fault() {
    const Store store = Store::open(database(), Store::Mode::read_only);
    std::map<std::string, std::vector<TrialRecord>> trials;
    for (const auto& [id, device] : store.devices()) {
      for (const TrialRecord& trial : store.trials(*store.find_problem(problem().to_string()), id)) {
        trials[Configuration::from_json(trial.configuration).text("fault")].push_back(trial);
      }
    }
    return trials;
  }

  void expect_sound_database() {
    SQLite::Database file(database().string(), SQLite::OPEN_READONLY);
    EXPECT_EQ(file.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(file.execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
  }

  std::filesystem::path folder_;
};

TEST_F(Faults, EveryKindIsRecordedWithItsReasonAndTheOthersAreRight) {
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), options(), listener).front();
  EXPECT_EQ(result.state, SessionState::finished);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Configuration::from_json(result.best->configuration).text("fault"), "none");

  const auto trials = trials_by_fault();
  for (const auto& [fault, outcome] : outcomes()) {
    ASSERT_TRUE(trials.contains(fault)) << fault;
    EXPECT_EQ(trials.at(fault).size(), 3u) << fault;
    for (const TrialRecord& trial : trials.at(fault)) {
      EXPECT_EQ(trial.status, outcome.status) << fault << ": " << trial.reason;
      EXPECT_THAT(trial.reason, testing::HasSubstr(outcome.reason)) << fault;
    }
  }
  expect_sound_database();
}

TEST_F(Faults, ProcessesKilledFromOutsideCostNoTrial) {
  std::atomic<bool> done{false};
  // Kills one of the workers, the compilers and their guards, four times. Only a trial that is met twice may
  // be lost.
  const pid_t self = getpid();
  constexpr int kKills = 4;
  std::thread killer([&] {
    std::mt19937 random(5);
    for (int kills = 0; kills < kKills && !done;) {
      std::this_thread::sleep_for(300ms);
      const std::set<pid_t> victims = descendants(self);
      if (victims.empty()) continue;
      kill(*std::next(victims.begin(), static_cast<long>(random() % victims.size())), SIGKILL);
      ++kills;
    }
  });
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), options(), listener).front();
  done = true;
  killer.join();
  EXPECT_EQ(result.state, SessionState::finished);
  std::size_t total = 0, lost = 0;
  for (const auto& [fault, list] : trials_by_fault()) {
    total += list.size();
    for (const TrialRecord& trial : list) lost += trial.status != outcomes().at(fault).status;
  }
  EXPECT_EQ(total, 3 * FaultFamily::faults().size());
  EXPECT_LE(lost, kKills / 2);
  expect_sound_database();
}

TEST_F(Faults, ATrialWhoseWorkerIsKilledIsTriedOnceMore) {
  choose_kinds(R"(["spins", "killed_once", "killed"])");
  setenv("KNOBWISE_TEST_MARKER", (folder_ / "marker").c_str(), 1);
  SessionOptions session = options();
  session.compile_limit_seconds = 60;  // none hangs, and the machine may be busy
  session.families = {"spinning"};
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  EXPECT_EQ(result.evaluated, 12);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "marker"));
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    if (Configuration::from_json(trial.configuration).text("kind") == "killed") {
      EXPECT_EQ(trial.status, TrialStatus::crashed);
      EXPECT_THAT(trial.reason, testing::HasSubstr("signal 9"));
    } else {
      EXPECT_EQ(trial.status, TrialStatus::ok) << trial.configuration << trial.reason;
    }
  }
}

// A session in a process of its own, to be killed.
pid_t start_session(const std::filesystem::path& database, const SessionOptions& options) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Store store = Store::open(database, Store::Mode::read_write);
  Silent listener;
  tune(store, problem(), options, listener);
  _exit(0);
}

TEST_F(Faults, ASessionKilledFiftyTimesGoesOnWhereItWas) {
  const std::filesystem::path temporary = folder_ / "tmp";
  std::filesystem::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  std::mt19937 random(11);
  std::set<std::string> finished;
  SessionOptions session = options();
  session.compile_limit_seconds = 1;  // the hanging ones should not take the test's time
  session.run_limit_seconds = 1;
  for (int round = 0; round < 50; ++round) {
    const pid_t pid = start_session(database(), session);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 600));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    EXPECT_EQ(left_behind(), std::set<pid_t>()) << "round " << round;
    if (!std::filesystem::exists(database()) || std::filesystem::file_size(database()) == 0) continue;
    // What was finished before is there still.
    std::set<std::string> now;
    const Store store = Store::open(database(), Store::Mode::read_write);
    if (const auto id = store.find_problem(problem().to_string())) {
      for (const auto& [device, record] : store.devices()) {
        for (const TrialRecord& trial : store.trials(*id, device))
          EXPECT_TRUE(now.insert(trial.configuration).second);
      }
    }
    EXPECT_TRUE(std::includes(now.begin(), now.end(), finished.begin(), finished.end())) << "round " << round;
    finished = now;
  }
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  EXPECT_EQ(result.state, SessionState::finished);
  EXPECT_EQ(result.reused, static_cast<std::int64_t>(finished.size()));
  EXPECT_EQ(result.evaluated + result.reused, static_cast<std::int64_t>(3 * FaultFamily::faults().size()));
  expect_sound_database();
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(temporary)) << "what killed compilers left there";
}

// While something is timed, compilers are stopped; so is what has to end with the session.
TEST_F(Faults, NothingOutlivesASessionKilledWhileItTimes) {
  choose_kinds(R"(["slow"])");
  SessionOptions session = options();
  session.families = {"spinning", "faulty"};
  session.compile_limit_seconds = 100;
  for (int round = 0; round < 8; ++round) {
    std::filesystem::remove(database());
    const pid_t pid = start_session(database(), session);
    std::this_thread::sleep_for(1s + round * 250ms);
    EXPECT_EQ(kill(pid, SIGKILL), 0);
    waitpid(pid, nullptr, 0);
    EXPECT_EQ(left_behind(), std::set<pid_t>()) << "round " << round;
  }
}

std::vector<long long> numbers_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istream_iterator<long long>(file), {}};
}

// When each run of a kernel that logs them began, in microseconds, and its variant.
struct LoggedRun {
  long long began, variant;
};

std::vector<LoggedRun> logged_runs(const std::filesystem::path& path) {
  const std::vector<long long> numbers = numbers_in(path);
  std::vector<LoggedRun> runs;
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) runs.push_back({numbers[i], numbers[i + 1]});
  return runs;
}

// Four configurations of which every run is logged.
class Logged : public Faults {
 protected:
  // The runs of each trial of the search, then those in which finalists were timed again.
  struct Runs {
    std::vector<std::vector<LoggedRun>> trials;
    std::vector<LoggedRun> again;
  };

  Runs tune_and_read_runs() {
    choose_kinds(R"(["logs"])");
    const std::filesystem::path log = folder_ / "runs";
    setenv("KNOBWISE_TEST_MARKER", log.c_str(), 1);
    SessionOptions session = options();
    session.families = {"spinning"};
    session.compile_limit_seconds = 100;
    session.timing.min_samples = session.timing.max_samples = 20;
    session.timing.max_seconds = 60;
    Store store = Store::open(database(), Store::Mode::read_write);
    // The session says when the search is over.
    class Counting : public Silent {
     public:
      explicit Counting(std::filesystem::path log) : log_(std::move(log)) {}
      void note(const std::string&) override { searched_ = logged_runs(log_).size(); }
      std::size_t searched() const { return searched_; }

     private:
      std::filesystem::path log_;
      std::size_t searched_ = 0;
    } listener(log);
    EXPECT_EQ(tune(store, problem(), session, listener).front().evaluated, 4);
    Runs result;
    const std::vector<LoggedRun> runs = logged_runs(log);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (listener.searched() > 0 && i >= listener.searched()) {
        result.again.push_back(runs[i]);
        continue;
      }
      if (i == 0 || runs[i].variant != runs[i - 1].variant) result.trials.emplace_back();
      result.trials.back().push_back(runs[i]);
    }
    return result;
  }
};

TEST_F(Logged, CompilersStandStillWhileSomethingIsTimed) {
  // Says the time again and again before it compiles, each run longer than the one before and in a file of
  // its own.
  const std::filesystem::path compilations = folder_ / "compilations", compiler = folder_ / "cxx";
  std::filesystem::create_directory(compilations);
  std::ofstream(compiler) << "#!/bin/sh\ncd '" << compilations.string()
                          << "' || exit 1\ncase \"$*\" in *kernel.cpp*) n=1\n"
                             "while ! mkdir $n 2> /dev/null; do n=$((n + 1)); done\n"
                             "for i in $(seq $((150 * n))); do date +%s%6N >> $n/ticks; done;; esac\n"
                             "cd - > /dev/null\nexec c++ \"$@\"\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  setenv("KNOBWISE_CXX", compiler.c_str(), 1);
  const Runs runs = tune_and_read_runs();
  unsetenv("KNOBWISE_CXX");
  ASSERT_EQ(runs.trials.size(), 4u);
  constexpr std::size_t kVerifying = 3;
  bool met = false;
  for (const auto& compilation : std::filesystem::directory_iterator(compilations)) {
    const std::vector<long long> ticks = numbers_in(compilation.path() / "ticks");
    EXPECT_EQ(ticks.size() % 150, 0u);
    for (const std::vector<LoggedRun>& trial : runs.trials) {
      ASSERT_GT(trial.size(), kVerifying);
      int before = 0, meanwhile = 0, after = 0;
      for (const long long tick : ticks)
        ++(tick < trial[kVerifying].began ? before : tick < trial.back().began ? meanwhile : after);
      EXPECT_EQ(meanwhile, 0) << "variant " << trial.front().variant;
      met = met || (before > 0 && after > 0);
    }
  }
  EXPECT_TRUE(met) << "nothing was compiled when the timing of a trial began";
}

TEST_F(Logged, FinalistsAreTimedInTurn) {
  std::vector<long long> turns;
  for (const LoggedRun& run : tune_and_read_runs().again) {
    if (turns.empty() || turns.back() != run.variant) turns.push_back(run.variant);
  }
  constexpr std::size_t kRounds = 3;
  ASSERT_GE(turns.size(), 2 * kRounds) << "too few were timed again";
  ASSERT_EQ(turns.size() % kRounds, 0u);
  const std::size_t finalists = turns.size() / kRounds;
  for (std::size_t i = finalists; i < turns.size(); ++i) EXPECT_EQ(turns[i], turns[i - finalists]) << i;
}

TEST_F(Faults, SessionsShareTheCacheWhileItIsCleared) {
  choose_kinds(R"(["spins"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  const std::filesystem::path databases[] = {folder_ / "one.db", folder_ / "two.db"};
  std::vector<pid_t> running;
  for (const auto& path : databases) running.push_back(start_session(path, session));
  const CodeCache cache;
  std::int64_t cleared = 0;
  while (!running.empty()) {
    cleared += cache.clear();
    std::this_thread::sleep_for(20ms);
    std::erase_if(running, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == pid; });
  }
  EXPECT_GT(cleared, 0);
  for (const auto& path : databases) {
    const Store store = Store::open(path, Store::Mode::read_only);
    ASSERT_EQ(store.sessions().size(), 1u);
    EXPECT_EQ(store.sessions().front().record.state, SessionState::finished);
    const std::vector<TrialRecord> trials = store.session_trials(store.sessions().front().id);
    EXPECT_EQ(trials.size(), 4u);
    for (const TrialRecord& trial : trials) EXPECT_EQ(trial.status, TrialStatus::ok) << trial.reason;
  }
}

// Counts what a session says while no trial ends.
class Patient : public Silent {
 public:
  void trial(const TrialEvent&) override { ended_ = true; }
  void waiting(const WaitingEvent& event) override {
    if (!ended_) events_.push_back(event);
  }
  const std::vector<WaitingEvent>& events() const { return events_; }

 private:
  bool ended_ = false;
  std::vector<WaitingEvent> events_;  // before the first trial ended
};

TEST_F(Faults, ALongFirstTrialIsSeenToBeUnderWay) {
  choose_kinds(R"(["loops"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  session.max_trials = 1;
  Store store = Store::open(database(), Store::Mode::read_write);
  Patient listener;
  tune(store, problem(), session, listener);
  ASSERT_GE(listener.events().size(), 2u);
  const WaitingEvent& last = listener.events().back();
  EXPECT_EQ(last.compiling, 0u);
  EXPECT_EQ(last.measuring, 1u);
  EXPECT_GT(last.measuring_seconds, 1);
  EXPECT_GE(last.seconds, last.measuring_seconds);
  EXPECT_EQ(last.done, 0);
}

TEST_F(Faults, BaselinesKeepTheirSamplesHoweverSlowTheyAre) {
  choose_kinds(R"(["slow", "spins"])");
  SessionOptions session = options();
  session.families = {"spinning", "library", "faulty"};
  session.compile_limit_seconds = 60;
  session.max_trials = 10;
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best_family, "faulty") << "fifty times faster than the library";
  int abandoned = 0;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    const std::string family = store.family(trial.family).name;
    const Configuration configuration = Configuration::from_json(trial.configuration);
    const bool is_default =
        family == "spinning" && configuration.text("kind") == "slow" && configuration.integer("variant") == 0;
    const bool is_best_of_library = family == "library" && configuration.integer("algorithm") == 0;
    if (is_default || is_best_of_library) {
      EXPECT_GE(trial.timing->samples.size(), 5u) << family;
    } else if (family != "faulty") {
      abandoned += trial.timing->samples.size() == 1;
    }
  }
  EXPECT_GT(abandoned, 10) << "others are given up";
  std::set<std::string> baselines;
  for (const BaselineRecord& baseline : result.baselines) baselines.insert(baseline.name);
  EXPECT_EQ(baselines, (std::set<std::string>{"faulty default", "library", "spinning default"}));
}

TEST_F(Faults, ALibraryTakesItsShareOfTheTimeAndNoMore) {
  choose_kinds(R"(["slow"])");
  SessionOptions session = options();
  session.families = {"library", "spinning", "faulty"};
  session.max_seconds = 16;
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  std::map<std::string, int> tried;
  double library_seconds = 0, longest = 0;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    const std::string family = store.family(trial.family).name;
    ++tried[family];
    if (family != "library") continue;
    const double seconds = *trial.verify_seconds + *trial.measure_seconds;
    library_seconds += seconds;
    longest = std::max(longest, seconds);
  }
  EXPECT_GE(tried["library"], 1);
  EXPECT_LT(library_seconds, *session.max_seconds / 4 + longest);
  EXPECT_GE(tried["spinning"], 1);
  EXPECT_GE(tried["faulty"], 2) << "the search goes on after the baselines";
}

TEST_F(Faults, AllConfigurationsFailingIsAResultNotACrash) {
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  SessionOptions session = options();
  session.accuracy = AccuracyRequirement::parse("max_abs=0");
  session.max_trials = 1;
  const SessionResult result =
      tune(store, Problem::parse("conv1d n=1 c=1 w=7 k=1 s=1 bias"), session, listener).front();
  EXPECT_EQ(result.state, SessionState::finished);
  EXPECT_FALSE(result.best) << "the family ignores the bias";
}

TEST_F(Faults, AFinalistThatFailsWhenTimedAgainIsNoLongerABest) {
  choose_kinds(R"(["spins", "fails_later"])");
  const std::filesystem::path marker = folder_ / "marker";
  setenv("KNOBWISE_TEST_MARKER", marker.c_str(), 1);
  // The session says when the search is over.
  class Marking : public Silent {
   public:
    explicit Marking(std::filesystem::path marker) : marker_(std::move(marker)) {}
    void note(const std::string& line) override {
      if (line.find("fastest again") != std::string::npos) std::ofstream(marker_) << "now";
    }

   private:
    std::filesystem::path marker_;
  } listener(marker);
  SessionOptions session = options();
  session.families = {"spinning"};
  Store store = Store::open(database(), Store::Mode::read_write);
  const SessionResult result = tune(store, problem(), session, listener).front();
  ASSERT_TRUE(std::filesystem::exists(marker)) << "nothing was timed again";
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Configuration::from_json(result.best->configuration).text("kind"), "spins");
  int failed = 0;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    if (trial.status == TrialStatus::ok) continue;
    ++failed;
    EXPECT_EQ(Configuration::from_json(trial.configuration).text("kind"), "fails_later");
    EXPECT_EQ(trial.status, TrialStatus::crashed);
    EXPECT_THAT(trial.reason, testing::HasSubstr("when timed again"));
    EXPECT_THAT(trial.reason, testing::HasSubstr("exit status 3"));
    EXPECT_FALSE(trial.timing);
  }
  EXPECT_GE(failed, 1);
  EXPECT_EQ(result.failed, failed);
  expect_sound_database();
}

TEST_F(Faults, WhatIsTenTimesSlowerThanTheBestIsTimedOnce) {
  choose_kinds(R"(["spins", "slow"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  int slow = 0;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    ASSERT_EQ(trial.status, TrialStatus::ok) << trial.reason;
    const bool is_slow = Configuration::from_json(trial.configuration).text("kind") == "slow";
    slow += is_slow;
    if (is_slow) {
      EXPECT_EQ(trial.timing->samples.size(), 1u);
    } else {
      EXPECT_GE(trial.timing->samples.size(), 5u);
    }
  }
  EXPECT_EQ(slow, 4);
}

TEST_F(Faults, TheLimitOfATrialFollowsThoseThatWentWell) {
  choose_kinds(R"(["spins", "loops"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  session.run_limit_seconds = 100;
  session.max_trials = 5;
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  double longest = 0;
  for (const TrialRecord& trial : store.session_trials(result.id))
    longest = std::max(longest, trial.verify_seconds.value_or(0) + trial.measure_seconds.value_or(0));
  EXPECT_EQ(result.failed, 1) << "one of the five does not end";
  EXPECT_LT(result.seconds, 30 + 10 * longest) << "far below the 100 s that it may take at first";
}

TEST_F(Faults, TheTimeOfASessionIsKeptWithinOneTrial) {
  choose_kinds(R"(["spins"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  session.max_seconds = 4;
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  for (const char* problem : {"conv1d n=1 c=1 w=1000 k=1 s=1", "conv1d n=1 c=1 w=1001 k=1 s=1"}) {
    const SessionResult result = tune(store, Problem::parse(problem), session, listener).front();
    double longest = 0;
    for (const TrialRecord& trial : store.session_trials(result.id))
      longest = std::max(longest, trial.verify_seconds.value_or(0) + trial.measure_seconds.value_or(0));
    EXPECT_LT(result.seconds, 4 + longest + 0.5) << "and what ending takes";
    EXPECT_GT(result.evaluated, 0);
  }
}

TEST_F(Faults, WithoutOverlapOneTrialEndsBeforeTheNextIsCompiled) {
  choose_kinds(R"(["spins"])");
  SessionOptions session = options(1);
  session.families = {"spinning"};
  session.overlap = false;
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), session, listener).front();
  const std::vector<TrialRecord> trials = store.session_trials(result.id);
  ASSERT_EQ(trials.size(), 4u);
  for (std::size_t i = 1; i < trials.size(); ++i) {
    const double took = *trials[i].compile_seconds + *trials[i].verify_seconds + *trials[i].measure_seconds;
    EXPECT_GE(trials[i].wall_seconds - trials[i - 1].wall_seconds, took - 0.002) << i;
  }
  EXPECT_GT(result.busy_share, 0);
  EXPECT_LT(result.busy_share, 1);
}

TEST_F(Faults, TwoDevicesOfOneKindDivideTheWork) {
  choose_kinds(R"(["spins"])");
  SessionOptions session = options();
  session.families = {"spinning"};
  session.devices.push_back(session.devices.front());
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const std::vector<SessionResult> results = tune(store, problem(), session, listener);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].device, "cpu,cpu");
  EXPECT_EQ(results[0].evaluated, 4);
  for (const TrialRecord& trial : store.session_trials(results[0].id))
    EXPECT_EQ(trial.status, TrialStatus::ok) << trial.reason;
  EXPECT_EQ(store.counts().trials, 4) << "nothing twice";
  EXPECT_EQ(store.counts().sessions, 1);
}

TEST_F(Faults, DevicesOfTwoKindsHaveResultsOfTheirOwn) {
  SessionOptions session = options();
  session.max_trials = 9;
  session.devices.push_back(session.devices.front());
  session.devices.back().info.name = "Another processor";
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const std::vector<SessionResult> results = tune(store, problem(), session, listener);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(store.counts().devices, 2);
  std::vector<std::map<std::string, TrialStatus>> outcomes;
  for (const SessionResult& result : results) {
    EXPECT_EQ(result.state, SessionState::finished);
    EXPECT_EQ(result.evaluated, 9);
    ASSERT_TRUE(result.best);
    EXPECT_EQ(store.device(result.best->device).name, result.info.name);
    outcomes.emplace_back();
    for (const TrialRecord& trial : store.session_trials(result.id)) {
      EXPECT_EQ(store.device(trial.device).name, result.info.name);
      outcomes.back().emplace(trial.configuration, trial.status);
    }
  }
  EXPECT_EQ(outcomes[0], outcomes[1]);
  expect_sound_database();
}

}  // namespace
}  // namespace knobwise::test

int main(int argc, char** argv) {
  knobwise::test::register_test_families();
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
