// Several processes on one file, and processes that die while they write.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "db/store.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

constexpr int kProcesses = 8;
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

TEST_F(ConcurrencyTest, EightProcessesCreateAndFillOneFileWithoutLoss) {
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
