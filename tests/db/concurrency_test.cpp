// Several processes on one file, and processes that die while they write.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

constexpr int kProcesses = 16;
constexpr int kTrialsEach = 60;

/// A child process that runs `body` and exits with 0 unless it throws.
pid_t spawn(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    body();
    _exit(0);
  } catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
}

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class ConcurrencyTest : public FolderTest {
 protected:
  void expect_sound(const std::filesystem::path& path) {
    SQLite::Database database(path.string());
    EXPECT_EQ(database.execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_FALSE(SQLite::Statement(database, "PRAGMA foreign_key_check").executeStep());
  }
};

TEST_F(ConcurrencyTest, SixteenProcessesCreateAndFillOneFileWithoutLoss) {
  const std::filesystem::path path = file("shared.db");
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(spawn([&] {
      Store store = Store::open(path, Store::Mode::read_write);
      const Ids ids = intern_all(store);
      for (int i = 0; i < kTrialsEach; ++i) {
        TrialRecord record = trial(ids, process * kTrialsEach + i, 1 + i);
        record.session_order = i;
        if (!store.insert_trial(record).inserted) throw std::runtime_error("taken for a duplicate");
        store.best(ids.problem, ids.device, allclose_limits());
      }
      store.finish_session(ids.session, SessionState::finished);
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);

  const StoreCounts counts = Store::open(path, Store::Mode::read_only).counts();
  EXPECT_EQ(counts.trials, kProcesses * kTrialsEach);
  EXPECT_EQ(counts.sessions, kProcesses);
  EXPECT_EQ(counts.devices + counts.environments + counts.problems + counts.families, 4);
  expect_sound(path);
}

/// Sixteen writers for some seconds (KNOBWISE_TEST_SECONDS, else 2), with a reader that looks all the while.
TEST_F(ConcurrencyTest, WritersForAWhileLoseNothingAndAReaderSeesWholeTransactions) {
  const char* wanted = std::getenv("KNOBWISE_TEST_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 2);
  const std::filesystem::path path = file("busy.db");
  Store::open(path, Store::Mode::read_write);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(spawn([&] {
      Store store = Store::open(path, Store::Mode::read_write);
      const Ids ids = intern_all(store);
      std::int32_t stored = 0;
      for (; std::chrono::steady_clock::now() < end; ++stored) {
        TrialRecord record = trial(ids, process * 10'000'000 + stored, 1 + stored % 50);
        record.session_order = stored;
        const InsertResult result = store.insert_trial(record);
        if (stored % 10 == 0) store.update_timing(result.id, timing(2));
        if (stored % 10 == 5) store.mark_failed(result.id, TrialStatus::crashed, "x");
        if (stored % 10 == 7) store.put_code(result.id, std::to_string(stored % 3));
      }
      if (::write(ends[1], &stored, sizeof stored) != sizeof stored)
        throw std::runtime_error("nobody listens");
    }));
  }
  close(ends[1]);
  while (std::chrono::steady_clock::now() < end) {
    // A trial without its errors, or tallies that do not agree, would be half a transaction.
    const Store reader = Store::open(path, Store::Mode::read_only);
    SQLite::Database database(path.string());
    SQLite::Transaction snapshot(database);
    EXPECT_EQ(database
                  .execAndGet(
                      "SELECT count(*) FROM trials AS t WHERE (SELECT count(*) FROM trial_errors WHERE trial "
                      "= t.id) <> 3")
                  .getInt(),
              0);
    EXPECT_EQ(database.execAndGet("SELECT coalesce(sum(trials), 0) FROM tallies").getInt(),
              database.execAndGet("SELECT count(*) FROM trials").getInt());
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  std::int64_t reported = 0;
  for (std::int32_t stored; read(ends[0], &stored, sizeof stored) == sizeof stored;) reported += stored;
  close(ends[0]);
  const Store store = Store::open(path, Store::Mode::read_only);
  EXPECT_EQ(store.counts().trials, reported);
  EXPECT_GT(reported, kProcesses);
  EXPECT_EQ(store.check(), std::vector<std::string>());
  RecordProperty("trials", static_cast<int>(reported));
}

/// RLIMIT_FSIZE stands in for the end of the disk.
TEST_F(ConcurrencyTest, AFullDiskIsAUserErrorAndLosesNothingThatWasStored) {
  const std::filesystem::path path = file("full.db");
  Store::open(path, Store::Mode::read_write);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = spawn([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{2'000'000, 2'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Store store = Store::open(path, Store::Mode::read_write);
    const Ids ids = intern_all(store);
    try {
      for (std::int32_t i = 0; i < 100'000; ++i) {
        store.insert_trial(trial(ids, i, 10));
        if (::write(ends[1], &i, sizeof i) != sizeof i) throw std::runtime_error("nobody listens");
      }
      throw std::runtime_error("the disk was never full");
    } catch (const UserError& error) {
      if (std::string(error.what()).find("full.db") == std::string::npos)
        throw std::runtime_error(error.what());
    }
    // Reading goes on, and writing fails as clearly again.
    if (store.counts().trials == 0) throw std::runtime_error("nothing can be read");
    try {
      store.insert_trial(trial(ids, 200'000, 10));
    } catch (const UserError&) {
    }
  });
  close(ends[1]);
  std::int64_t reported = 0;
  for (std::int32_t i; read(ends[0], &i, sizeof i) == sizeof i;) ++reported;
  close(ends[0]);
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_GT(reported, 20);
  Store store = Store::open(path, Store::Mode::read_write);
  EXPECT_GE(store.counts().trials, reported);
  EXPECT_EQ(store.check(), std::vector<std::string>());
  EXPECT_TRUE(store.insert_trial(trial(intern_all(store), 300'000, 10)).inserted);
}

TEST_F(ConcurrencyTest, AKilledMergeOrPruneIsDoneWholeOrNotAtAll) {
  {
    Store store = Store::open(file("source.db"), Store::Mode::read_write);
    const Ids ids = intern_all(store);
    for (int i = 0; i < 3000; ++i) store.insert_trial(trial(ids, i, 10));
  }
  for (int round = 0; round < 8; ++round) {
    const std::filesystem::path path = file("target" + std::to_string(round) + ".db");
    Store::open(path, Store::Mode::read_write);
    const pid_t child = spawn([&] {
      Store store = Store::open(path, Store::Mode::read_write);
      store.merge(file("source.db"));
      store.prune({.groups = {}, .keep_best = 100});
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(15 * round));
    kill(child, SIGKILL);
    wait_for(child);
    const Store store = Store::open(path, Store::Mode::read_write);
    const std::int64_t trials = store.counts().trials;
    EXPECT_TRUE(trials == 0 || trials == 3000 || trials == 100) << trials;
    EXPECT_EQ(store.check(), std::vector<std::string>());
  }
}

TEST_F(ConcurrencyTest, TheSameWorkInTwoProcessesIsStoredOnce) {
  const std::filesystem::path path = file("race.db");
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process) {
    children.push_back(spawn([&] {
      Store store = Store::open(path, Store::Mode::read_write);
      const Ids ids = intern_all(store);
      for (int i = 0; i < kTrialsEach; ++i) store.insert_trial(trial(ids, i, 1 + process));
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(Store::open(path, Store::Mode::read_only).counts().trials, kTrialsEach);
}

TEST_F(ConcurrencyTest, AKilledWriterLosesNothingThatWasReported) {
  const std::filesystem::path path = file("killed.db");
  Store::open(path, Store::Mode::read_write);
  for (int round = 0; round < 5; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = spawn([&] {
      Store store = Store::open(path, Store::Mode::read_write);
      const Ids ids = intern_all(store);
      for (int i = 0;; ++i) {
        TrialRecord record = trial(ids, round * 1'000'000 + i, 10);
        record.session_order = i;
        store.insert_trial(record);
        if (::write(ends[1], "x", 1) != 1) throw std::runtime_error("nobody listens");
      }
    });
    close(ends[1]);
    char mark;
    std::int64_t reported = 0;
    const std::int64_t before = Store::open(path, Store::Mode::read_only).counts().trials;
    while (reported < 20 * (round + 1) && read(ends[0], &mark, 1) == 1) ++reported;
    kill(child, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child)));
    while (read(ends[0], &mark, 1) == 1) ++reported;
    close(ends[0]);

    expect_sound(path);
    Store store = Store::open(path, Store::Mode::read_write);
    const auto sessions = store.sessions();
    ASSERT_EQ(sessions.size(), static_cast<std::size_t>(round) + 1);
    EXPECT_EQ(sessions.back().record.state, SessionState::running);
    const std::vector<TrialRecord> trials = store.session_trials(sessions.back().id);
    // The last one may have been committed without being reported.
    EXPECT_GE(static_cast<std::int64_t>(trials.size()), reported);
    EXPECT_LE(static_cast<std::int64_t>(trials.size()), reported + 1);
    for (const TrialRecord& record : trials) EXPECT_EQ(record.errors, errors());
    EXPECT_GE(store.counts().trials, before);
  }
}

TEST_F(ConcurrencyTest, AProcessKilledWhileCreatingLeavesAUsableFile) {
  for (int round = 0; round < 10; ++round) {
    const std::filesystem::path path = file("new" + std::to_string(round) + ".db");
    const pid_t child = spawn([&] { Store::open(path, Store::Mode::read_write); });
    std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
    kill(child, SIGKILL);
    wait_for(child);
    Store store = Store::open(path, Store::Mode::read_write);
    EXPECT_TRUE(store.insert_trial(trial(intern_all(store), 0, 1)).inserted);
  }
}

TEST_F(ConcurrencyTest, OpeningAFileKeepsTheLocksThatThisProcessHoldsOnIt) {
  const std::filesystem::path path = file("locked.db");
  Store::open(path, Store::Mode::read_write);
  // A rollback journal keeps its locks on the database itself.
  ASSERT_EQ(SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
                .execAndGet("PRAGMA journal_mode = DELETE")
                .getString(),
            "delete");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  // Forked before anything is locked: a child inherits SQLite's notes on the locks of its parent.
  const pid_t child = spawn([&] {
    char mark;
    if (read(ends[0], &mark, 1) != 1) throw std::runtime_error("no signal");
    SQLite::Database other(path.string(), SQLite::OPEN_READWRITE);
    if (other.tryExec("BEGIN IMMEDIATE") != SQLITE_BUSY) throw std::runtime_error("the lock is gone");
  });
  SQLite::Database holder(path.string(), SQLite::OPEN_READWRITE);
  SQLite::Transaction transaction(holder, SQLite::TransactionBehavior::IMMEDIATE);
  // POSIX locks belong to the process: closing any handle of a file gives up all of them.
  Store::open(path, Store::Mode::read_only);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_EQ(wait_for(child), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ConcurrencyTest, AWriterWaitsForALongTransactionOfAnother) {
  const std::filesystem::path path = file("wait.db");
  Store store = Store::open(path, Store::Mode::read_write);
  const Ids ids = intern_all(store);
  std::thread holder([&] {
    SQLite::Database other(path.string(), SQLite::OPEN_READWRITE);
    SQLite::Transaction transaction(other, SQLite::TransactionBehavior::IMMEDIATE);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    transaction.commit();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(store.insert_trial(trial(ids, 0, 1)).inserted);
  holder.join();
}

}  // namespace
}  // namespace knobwise::testing
