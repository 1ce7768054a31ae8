// Files of every schema version ever committed: read as they are, upgraded with a backup, nothing lost.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<fs::path> kept_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator("tests/db/schemas")) files.push_back(entry.path());
  return files;
}

class MigrationTest : public FolderTest, public ::testing::WithParamInterface<fs::path> {
 protected:
  fs::path copy(const std::string& name = "old.db") {
    fs::copy_file(GetParam(), file(name));
    fs::permissions(file(name), fs::perms::owner_all);
    return file(name);
  }
};

TEST_P(MigrationTest, UpgradesWithEverythingKept) {
  const fs::path path = copy();
  const std::string before = dump(path);
  ASSERT_NE(before, "");
  {
    const Store store = Store::open(path, Store::Mode::read_write);
    EXPECT_EQ(store.version(), Store::latest_version());
    EXPECT_EQ(store.counts().trials, 9);
  }
  EXPECT_EQ(dump(path), before);
  EXPECT_EQ(column(path, "PRAGMA integrity_check"), "ok\n");
  EXPECT_EQ(column(path, "PRAGMA foreign_key_check"), "");
}

TEST_P(MigrationTest, HasTheSchemaOfANewFile) {
  const fs::path path = copy();
  Store::open(path, Store::Mode::read_write);
  Store::open(file("new.db"), Store::Mode::read_write);
  const char* names = "SELECT type || ' ' || name || ' ' || tbl_name FROM sqlite_schema ORDER BY 1";
  EXPECT_EQ(column(path, names), column(file("new.db"), names));
}

TEST_P(MigrationTest, LeavesABackupThatIsTheOldFile) {
  const fs::path path = copy();
  const std::string before = dump(path), version = column(path, "PRAGMA user_version");
  Store::open(path, Store::Mode::read_write);
  const fs::path backup = path.string() + ".schema1.backup";
  ASSERT_TRUE(fs::exists(backup));
  EXPECT_EQ(column(backup, "PRAGMA user_version"), version);
  EXPECT_EQ(dump(backup), before);
  // The backup put back and upgraded again: the first backup stays.
  fs::copy_file(backup, path, fs::copy_options::overwrite_existing);
  Store::open(path, Store::Mode::read_write);
  EXPECT_TRUE(fs::exists(backup));
  EXPECT_TRUE(fs::exists(backup.string() + ".2"));
}

TEST_P(MigrationTest, ABackupHoldsWhatIsStillInTheLog) {
  const fs::path path = copy();
  SQLite::Database writer(path.string(), SQLite::OPEN_READWRITE);
  writer.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  writer.exec("INSERT INTO families (backend, name, source_hash) VALUES ('cuda', 'late', 'x')");
  Store::open(path, Store::Mode::read_write);
  EXPECT_EQ(column(path.string() + ".schema1.backup", "SELECT name FROM families WHERE source_hash = 'x'"),
            "late\n");
  EXPECT_EQ(column(path, "SELECT name FROM families WHERE source_hash = 'x'"), "late\n");
}

TEST_P(MigrationTest, IsReadWithoutUpgrading) {
  const fs::path path = copy();
  const std::string bytes = content(path);
  const Store store = Store::open(path, Store::Mode::read_only);
  EXPECT_EQ(store.version(), 1);
  const auto problem = store.find_problem("conv2d n=8 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 bias | relu");
  const BestAnswer answer = store.best(problem.value(), 1, allclose_limits());
  EXPECT_EQ(answer.trial->timing->time_us, 98.0);
  EXPECT_EQ(store.counts().codes, 0);
  EXPECT_EQ(store.code(answer.trial->id), std::nullopt);
  EXPECT_TRUE(content(path) == bytes);
}

TEST_P(MigrationTest, TheViewsSayWhatTheySaid) {
  const fs::path path = copy();
  const std::string views[] = {"SELECT * FROM best", "SELECT * FROM failures", "SELECT * FROM progress",
                               "SELECT * FROM trial_accuracy"};
  std::vector<std::string> before;
  for (const std::string& view : views) before.push_back(column(path, view));
  Store::open(path, Store::Mode::read_write);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(column(path, views[i]), before[i]) << views[i];
}

TEST_P(MigrationTest, WithoutRoomForTheBackupNothingChanges) {
  const fs::path path = copy();
  const std::string before = dump(path);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{40'000, 40'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      Store::open(path, Store::Mode::read_write);
    } catch (const UserError& error) {
      _exit(std::string(error.what()).find("was not upgraded") != std::string::npos ? 7 : 8);
    }
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(column(path, "PRAGMA user_version"), "1\n");
  EXPECT_EQ(dump(path), before);
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("backup")));
}

TEST_P(MigrationTest, SeveralProcessesUpgradeOnce) {
  const fs::path path = copy();
  const std::string before = dump(path);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      try {
        Store::open(path, Store::Mode::read_write);
        _exit(0);
      } catch (...) {
        _exit(1);
      }
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(dump(path), before);
  EXPECT_FALSE(fs::exists(path.string() + ".schema1.backup.2"));
}

INSTANTIATE_TEST_SUITE_P(Schemas, MigrationTest, ::testing::ValuesIn(kept_files()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST(Schemas, EveryVersionButTheNewestIsKept) {
  for (int version = 1; version < Store::latest_version(); ++version)
    EXPECT_TRUE(fs::exists("tests/db/schemas/schema_" + std::to_string(version) + ".sqlite")) << version;
}

}  // namespace
}  // namespace knobwise::testing
