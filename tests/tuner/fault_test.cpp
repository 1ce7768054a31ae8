// Bad configurations, killed workers and killed sessions: each costs what it must and no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <SQLiteCpp/SQLiteCpp.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "db/store.h"
#include "kernels/device.h"
#include "tests/tuner/fault_family.h"
#include "tuner/evaluation/worker_process.h"
#include "tuner/evaluation/workers.h"
#include "tuner/session.h"

namespace knobwise::test {
namespace {

using namespace std::chrono_literals;

const Problem& problem() {
  static const Problem value = Problem::parse("conv1d n=1 c=1 w=1000 k=1 s=1");
  return value;
}

class Silent : public SessionListener {
 public:
  void note(const std::string&) override {}
  void trial(const TrialEvent&) override { ++trials; }
  int trials = 0;
};

// Children of this process, and theirs.
std::set<pid_t> descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream stat(entry.path() / "stat");
    std::string line;
    if (!std::getline(stat, line)) continue;
    int parent = 0;
    char state = 0;
    if (std::sscanf(line.c_str() + line.rfind(')') + 1, " %c %d", &state, &parent) == 2 && state != 'Z') {
      children.emplace(parent, std::atoi(line.c_str()));
    }
  }
  std::set<pid_t> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (auto [child, end] = children.equal_range(parent); child != end; ++child) {
      if (found.insert(child->second).second) open.push_back(child->second);
    }
  }
  return found;
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    fault_family();
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
    setenv("KNOBWISE_TEST_FIFO", (folder_ / "fifo").c_str(), 1);
    setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    EXPECT_EQ(descendants(getpid()), std::set<pid_t>()) << "a process was left behind";
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  SessionOptions options(int jobs = 2) {
    SessionOptions options;
    options.executable = "/proc/self/exe";
    options.info = list_devices(nullptr).front();
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
  const SessionResult result = tune(store, problem(), options(), listener);
  EXPECT_EQ(result.state, SessionState::finished);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Configuration::from_json(result.best->configuration).text("fault"), "none");

  const std::map<std::string, std::pair<TrialStatus, std::string>> expected = {
      {"none", {TrialStatus::ok, ""}},
      {"does_not_compile", {TrialStatus::compile_failed, "error"}},
      {"compiler_hangs", {TrialStatus::compile_timeout, "4 s"}},
      {"wrong", {TrialStatus::wrong_result, "relative error"}},
      {"nan", {TrialStatus::wrong_result, "NaN"}},
      {"unwritten", {TrialStatus::wrong_result, "never written"}},
      {"writes_behind", {TrialStatus::out_of_bounds, "output"}},
      {"writes_before", {TrialStatus::out_of_bounds, "output"}},
      {"crashes", {TrialStatus::crashed, "signal 11"}},
      {"exits", {TrialStatus::crashed, "exit status 3"}},
      {"loops", {TrialStatus::timeout, "stopped after"}},
  };
  const auto trials = trials_by_fault();
  for (const auto& [fault, outcome] : expected) {
    ASSERT_TRUE(trials.contains(fault)) << fault;
    EXPECT_EQ(trials.at(fault).size(), 3u) << fault;
    for (const TrialRecord& trial : trials.at(fault)) {
      EXPECT_EQ(trial.status, outcome.first) << fault << ": " << trial.reason;
      EXPECT_THAT(trial.reason, testing::HasSubstr(outcome.second)) << fault;
    }
  }
  expect_sound_database();
}

TEST_F(Faults, AWorkerKilledFromOutsideCostsOneTrialAtMost) {
  std::atomic<bool> done{false};
  // Kills whatever the session has started, three times.
  const pid_t self = getpid();
  std::thread killer([&] {
    for (int kills = 0; kills < 3 && !done;) {
      std::this_thread::sleep_for(150ms);
      const std::set<pid_t> victims = descendants(self);
      if (victims.empty()) continue;
      kill(*victims.begin(), SIGKILL);
      ++kills;
    }
  });
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem(), options(), listener);
  done = true;
  killer.join();
  EXPECT_EQ(result.state, SessionState::finished);
  const auto trials = trials_by_fault();
  int ok = 0, killed = 0;
  for (const TrialRecord& trial : trials.at("none")) {
    ok += trial.status == TrialStatus::ok;
    killed += trial.status == TrialStatus::crashed || trial.status == TrialStatus::compile_crashed;
  }
  EXPECT_EQ(ok + killed, 3);
  std::size_t total = 0;
  for (const auto& [fault, list] : trials) total += list.size();
  EXPECT_EQ(total, 3 * FaultFamily::faults().size());
  expect_sound_database();
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
  const SessionResult result = tune(store, problem(), session, listener);
  EXPECT_EQ(result.state, SessionState::finished);
  EXPECT_EQ(result.reused, static_cast<std::int64_t>(finished.size()));
  EXPECT_EQ(result.evaluated + result.reused, static_cast<std::int64_t>(3 * FaultFamily::faults().size()));
  expect_sound_database();
  // Workers of killed sessions follow them.
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(descendants(getpid()), std::set<pid_t>());
}

TEST_F(Faults, AllConfigurationsFailingIsAResultNotACrash) {
  Store store = Store::open(database(), Store::Mode::read_write);
  Silent listener;
  SessionOptions session = options();
  session.accuracy = AccuracyRequirement::parse("max_abs=0");
  session.max_trials = 1;
  const SessionResult result =
      tune(store, Problem::parse("conv1d n=1 c=1 w=7 k=1 s=1 bias"), session, listener);
  EXPECT_EQ(result.state, SessionState::finished);
  EXPECT_FALSE(result.best) << "the family ignores the bias";
}

}  // namespace
}  // namespace knobwise::test

// The test is its own worker: only so do workers know the faulty family.
int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "worker") {
    knobwise::test::fault_family();
    knobwise::become_worker(static_cast<pid_t>(std::atol(argv[3])));
    return std::string(argv[2]) == "compile" ? knobwise::run_compile_worker()
                                             : knobwise::run_measure_worker();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
