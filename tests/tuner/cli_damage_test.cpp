// Files that cannot be used, as a person meets them: one clear line, the right exit status, no file changed,
// and the other databases serve.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>

#include "tests/db/dump.h"
#include "tests/db/fixtures.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kProblem = "conv2d n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1";
constexpr std::size_t kPage = 4096;
using knobwise::testing::content;

class UnusableFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    const CommandResult tuned = run({"tune", kProblem, "--device", "cpu", "--family", "direct_conv",
                                     "--max-trials", "1", "--db", path("good.db")});
    ASSERT_EQ(tuned.status, 0) << tuned.err;
    SQLite::Database(path("good.db"), SQLite::OPEN_READWRITE).exec("VACUUM INTO '" + path("whole.db") + "'");
    whole_ = content(path("whole.db"));
    std::ofstream(path("problems.txt")) << kProblem << "\n";
  }

  CommandResult run(const std::vector<std::string>& arguments) { return knobwise(arguments, folder_); }

  /// With the limits or rights that `prepare` sets in the child.
  CommandResult run_under(const std::function<void()>& prepare, const std::vector<std::string>& arguments) {
    const pid_t child = fork();
    if (child == 0) {
      prepare();
      int status = 0;
      waitpid(start_knobwise(arguments, folder_), &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    }
    return finish(child, folder_);
  }

  std::string path(const std::string& name) { return folder_ / name; }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  /// One file of each kind of damage, and what is said of it.
  std::map<std::string, std::string> damaged_files() {
    write("cut.db", whole_.substr(0, whole_.size() / 2));
    write("cut_short.db", whole_.substr(0, 100));
    std::string flipped = whole_;
    // The first byte of the second page, where the devices are.
    flipped[kPage] = static_cast<char>(flipped[kPage] ^ 0xff);
    write("flipped.db", flipped);
    flipped = whole_;
    flipped[100] = static_cast<char>(flipped[100] ^ 0xff);
    write("flipped_schema.db", flipped);
    write("text.db", "dear diary\n");
    fs::copy_file(path("whole.db"), path("other.db"));
    SQLite::Database(path("other.db"), SQLite::OPEN_READWRITE).exec("PRAGMA application_id = 7");
    fs::copy_file(path("whole.db"), path("future.db"));
    SQLite::Database(path("future.db"), SQLite::OPEN_READWRITE)
        .exec("PRAGMA user_version = 99; ALTER TABLE trials RENAME COLUMN configuration TO settings");
    return {{"cut.db", "damaged or cut short"},     {"cut_short.db", "damaged or cut short"},
            {"flipped.db", "damaged or cut short"}, {"flipped_schema.db", "damaged or cut short"},
            {"text.db", "is not a database"},       {"other.db", "another application"},
            {"future.db", "schema version 99"}};
  }

  static void expect_one_line(const CommandResult& result) {
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  TemporaryFolder folder_;
  std::string whole_;
};

TEST_F(UnusableFiles, EveryCommandRefusesThemAndLeavesThemAlone) {
  for (const auto& [name, reason] : damaged_files()) {
    const std::string before = content(path(name));
    const std::vector<std::vector<std::string>> commands = {
        {"best", kProblem, "--device", "cpu", "--db", path(name)},
        {"run", kProblem, "--device", "cpu", "--db", path(name)},
        {"run", "--all", "--device", "cpu", "--db", path(name)},
        {"tune", kProblem, "--device", "cpu", "--max-trials", "1", "--db", path(name)},
        {"sweep", path("problems.txt"), "--device", "cpu", "--max-trials", "1", "--db", path(name)},
        {"report", "--db", path(name), "-o", path("new")},
        {"db", "info", "--db", path(name)},
        {"db", "export", path("new.csv"), "--db", path(name)},
        {"db", "prune", "--failed", "--yes", "--db", path(name)},
        {"db", "merge", path(name), path("good.db")},
        {"db", "merge", path("new"), path(name)},
    };
    for (const std::vector<std::string>& command : commands) {
      SCOPED_TRACE(name + ": " + command[0] + " " + command[1]);
      const CommandResult result = run(command);
      EXPECT_EQ(result.status, 2) << result.out;
      expect_one_line(result);
      EXPECT_THAT(result.err, AllOf(HasSubstr(name), HasSubstr(reason)));
      EXPECT_TRUE(content(path(name)) == before);
      EXPECT_FALSE(fs::exists(path("new")));
      EXPECT_FALSE(fs::exists(path("new.csv")));
    }
  }
}

TEST_F(UnusableFiles, TheOtherDatabasesServeAndTheFileIsNamedOnce) {
  auto files = damaged_files();
  files.emplace("none.db", "no database at");
  write("zero.db", "");
  files.emplace("zero.db", "is empty");
  for (const auto& [name, reason] : files) {
    const std::vector<std::vector<std::string>> commands = {
        {"best", kProblem, "--device", "cpu"},
        {"run", kProblem, "--device", "cpu", "--allow", "exact"},
        {"db", "info"},
        {"report", "-o", path("report.html")},
    };
    for (std::vector<std::string> command : commands) {
      SCOPED_TRACE(name + ": " + command[0]);
      command.insert(command.end(), {"--db", path(name), "--db", path("good.db")});
      const CommandResult result = run(command);
      EXPECT_EQ(result.status, 0) << result.out;
      expect_one_line(result);
      EXPECT_THAT(result.err,
                  AllOf(HasSubstr(name), HasSubstr(reason), HasSubstr("the other databases serve")));
    }
  }
}

TEST_F(UnusableFiles, SalvageGetsTheTrialsOfADamagedCopy) {
  damaged_files();
  for (const char* name : {"flipped.db", "flipped_schema.db"}) {
    const CommandResult result = run({"db", "salvage", path(name), path(std::string("out_of_") + name)});
    EXPECT_EQ(result.status, 0) << result.err;
  }
  const CommandResult best =
      run({"best", kProblem, "--device", "cpu", "--db", path("out_of_flipped_schema.db")});
  EXPECT_EQ(best.status, 0) << best.err;
  for (const char* name : {"text.db", "cut_short.db"}) {
    const CommandResult nothing = run({"db", "salvage", path(name), path("out.db")});
    EXPECT_EQ(nothing.status, 2);
    expect_one_line(nothing);
    EXPECT_THAT(nothing.err, HasSubstr(name));
    EXPECT_FALSE(fs::exists(path("out.db")));
  }
}

TEST_F(UnusableFiles, AFileOfZeroBytesIsANewDatabaseForAWriter) {
  write("zero.db", "");
  const CommandResult looked = run({"best", kProblem, "--device", "cpu", "--db", path("zero.db")});
  EXPECT_EQ(looked.status, 2);
  expect_one_line(looked);
  EXPECT_EQ(content(path("zero.db")), "");
  EXPECT_EQ(run({"db", "merge", path("zero.db"), path("good.db")}).status, 0);
  EXPECT_EQ(run({"best", kProblem, "--device", "cpu", "--db", path("zero.db")}).status, 0);
}

TEST_F(UnusableFiles, ADatabaseFromTheFutureIsReadWhileItCanBe) {
  fs::copy_file(path("whole.db"), path("future.db"));
  SQLite::Database(path("future.db"), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
  const std::string before = content(path("future.db"));
  EXPECT_EQ(run({"best", kProblem, "--device", "cpu", "--db", path("future.db")}).status, 0);
  EXPECT_EQ(run({"db", "info", "--db", path("future.db")}).status, 0);
  EXPECT_EQ(run({"db", "check", "--db", path("future.db")}).status, 0);
  EXPECT_EQ(run({"db", "merge", path("out.db"), path("future.db")}).status, 0);
  const CommandResult written =
      run({"tune", kProblem, "--device", "cpu", "--max-trials", "1", "--db", path("future.db")});
  EXPECT_EQ(written.status, 2);
  EXPECT_THAT(written.err, HasSubstr("use a newer knobwise"));
  EXPECT_TRUE(content(path("future.db")) == before);
}

TEST_F(UnusableFiles, AFullDiskIsSaidAndCostsNothingThatIsStored) {
  const auto full = [] {
    const rlimit limit{60'000, 60'000};
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  const std::string before = knobwise::testing::dump(path("good.db"));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"db", "merge", path("new.db"), path("good.db")},
           {"db", "salvage", path("good.db"), path("new.db")},
           {"tune", kProblem, "--device", "cpu", "--max-trials", "1", "--db", path("new.db")}}) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    const CommandResult result = run_under(full, command);
    EXPECT_EQ(result.status, 2) << result.out;
    expect_one_line(result);
    EXPECT_THAT(result.err, HasSubstr("new.db"));
    fs::remove(path("new.db"));
  }
  EXPECT_EQ(run_under(full, {"best", kProblem, "--device", "cpu", "--db", path("good.db")}).status, 0);
  EXPECT_EQ(knobwise::testing::dump(path("good.db")), before);
  EXPECT_EQ(run({"db", "check", "--db", path("good.db")}).status, 0);
}

TEST_F(UnusableFiles, AReadOnlyFolderServesLookupsAndNothingElse) {
  const fs::path locked = path("locked");
  fs::create_directory(locked);
  fs::copy_file(path("whole.db"), locked / "a.db");
  SQLite::Database(locked / "a.db", SQLite::OPEN_READWRITE).execAndGet("PRAGMA journal_mode = WAL");
  fs::permissions(locked.parent_path(), fs::perms::all);
  for (const char* output : {"out", "err", "report.html"}) {
    write(output, "");
    fs::permissions(path(output), fs::perms::all);
  }
  fs::permissions(locked, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  const auto ordinary = [] {
    constexpr unsigned kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(98);
  };
  if (run_under(ordinary, {"--version"}).status != 0) GTEST_SKIP() << "only its owner can run the executable";
  const std::string database = locked / "a.db";
  EXPECT_EQ(run_under(ordinary, {"best", kProblem, "--device", "cpu", "--db", database}).status, 0);
  EXPECT_EQ(run_under(ordinary, {"db", "check", "--db", database}).status, 0);
  EXPECT_EQ(run_under(ordinary, {"db", "info", "--db", database}).status, 0);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"tune", kProblem, "--device", "cpu", "--max-trials", "1", "--db", database},
           {"tune", kProblem, "--device", "cpu", "--max-trials", "1", "--db", locked / "new.db"},
           {"db", "prune", "--failed", "--yes", "--db", database},
           {"db", "merge", locked / "new.db", database},
           {"db", "salvage", database, locked / "new.db"}}) {
    SCOPED_TRACE(command[0] + " " + command[1]);
    const CommandResult result = run_under(ordinary, command);
    EXPECT_EQ(result.status, 2) << result.out;
    expect_one_line(result);
    EXPECT_THAT(result.err, HasSubstr("locked"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(locked), fs::directory_iterator()), 1);
  fs::permissions(locked, fs::perms::owner_all);
}

}  // namespace
}  // namespace knobwise::test
