// Which files are opened, which are refused, and that a refused file stays as it was.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "db/file_system.h"
#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The message of the UserError that opening raises; empty when it opens.
std::string refusal(const fs::path& path, Store::Mode mode) {
  try {
    Store::open(path, mode);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

/// Runs `body` in a child without the superuser's rights, for whom permissions would not count;
/// what it returns.
std::string as_ordinary_user(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string result;
    try {
      constexpr unsigned kNobody = 65534;
      if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) {
        result = "cannot drop rights";
      } else {
        result = body();
      }
    } catch (const std::exception& error) {
      result = error.what();
    }
    const bool written =
        ::write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string result;
  char buffer[512];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.append(buffer, static_cast<std::size_t>(size));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? result : "child failed";
}

class FileTest : public FolderTest {
 protected:
  /// A database with one trial, closed.
  fs::path tuned(const std::string& name = "tuned.db") {
    Store store = Store::open(file(name), Store::Mode::read_write);
    store.insert_trial(trial(intern_all(store), 0, 10));
    return file(name);
  }

  void expect_refused_and_untouched(const fs::path& path, const std::string& reason) {
    const std::string before = content(path);
    EXPECT_THAT(refusal(path, Store::Mode::read_write), HasSubstr(reason));
    EXPECT_THAT(refusal(path, Store::Mode::read_only), HasSubstr(reason));
    EXPECT_TRUE(content(path) == before);
    EXPECT_FALSE(fs::exists(path.string() + "-journal"));
  }
};

TEST_F(FileTest, ANewFileIsCreatedAndReopened) {
  const Ids ids = [&] {
    Store store = Store::open(file("a.db"), Store::Mode::read_write);
    EXPECT_EQ(store.version(), Store::latest_version());
    EXPECT_FALSE(store.read_only());
    const Ids interned = intern_all(store);
    store.insert_trial(trial(interned, 0, 10));
    return interned;
  }();
  for (const Store::Mode mode : {Store::Mode::read_write, Store::Mode::read_only}) {
    const Store store = Store::open(file("a.db"), mode);
    EXPECT_EQ(store.path(), file("a.db"));
    EXPECT_EQ(store.best(ids.problem, ids.device, allclose_limits()).trial->timing, timing(10));
  }
}

TEST_F(FileTest, TheFileNamesItsApplicationAndVersion) {
  SQLite::Database database(tuned().string());
  EXPECT_EQ(database.execAndGet("PRAGMA application_id").getInt(), 0x6B6E6F62);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), Store::latest_version());
  EXPECT_EQ(database.execAndGet("PRAGMA journal_mode").getString(), "wal");
  EXPECT_EQ(database
                .execAndGet("SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND "
                            "name NOT LIKE 'sqlite%'")
                .getInt(),
            0);
}

TEST_F(FileTest, AMissingFileIsNotCreatedForReading) {
  EXPECT_THAT(refusal(file("none.db"), Store::Mode::read_only), HasSubstr("no database at"));
  EXPECT_FALSE(fs::exists(file("none.db")));
}

TEST_F(FileTest, AMissingFolderAFolderAndAnEmptyPathAreUserErrors) {
  EXPECT_THAT(refusal(file("no/such/a.db"), Store::Mode::read_write),
              HasSubstr("check that its folder exists"));
  EXPECT_THAT(refusal(folder_, Store::Mode::read_write), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(folder_, Store::Mode::read_only), HasSubstr("is a folder"));
  EXPECT_THAT(refusal("/dev/null", Store::Mode::read_write), HasSubstr("is not an ordinary file"));
  EXPECT_THAT(refusal("", Store::Mode::read_write), HasSubstr("is empty"));
}

TEST_F(FileTest, SpecialNamesOfSqliteAreOrdinaryFiles) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_EQ(refusal(":memory:", Store::Mode::read_write), "");
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(file(":memory:")));
}

TEST_F(FileTest, AZeroByteFileIsFreshForWritingOnly) {
  write(file("zero.db"), "");
  EXPECT_THAT(refusal(file("zero.db"), Store::Mode::read_only), HasSubstr("is empty"));
  EXPECT_EQ(fs::file_size(file("zero.db")), 0u);
  EXPECT_EQ(refusal(file("zero.db"), Store::Mode::read_write), "");
  EXPECT_EQ(refusal(file("zero.db"), Store::Mode::read_only), "");
}

TEST_F(FileTest, ATextFileIsRefused) {
  write(file("notes.db"), "to whom it may concern\n");
  expect_refused_and_untouched(file("notes.db"), "is not a database");
  write(file("long.db"), std::string(100'000, 'x'));
  expect_refused_and_untouched(file("long.db"), "is not a database");
  for (std::size_t size = 1; size < 600; size += 13) {
    write(file("short.db"), std::string(size, 'x'));
    expect_refused_and_untouched(file("short.db"), "is not a database");
  }
}

TEST_F(FileTest, ATruncatedFileIsRefusedWhereverItIsCut) {
  const std::string whole = content(tuned());
  ASSERT_GT(whole.size(), 20'000u);
  for (const std::size_t size : {1u, 16u, 50u, 99u, 100u, 511u, 512u, 1000u, 4096u, 5000u, 8192u}) {
    SCOPED_TRACE(size);
    const fs::path cut = file("cut" + std::to_string(size) + ".db");
    write(cut, whole.substr(0, size));
    const std::string before = content(cut);
    EXPECT_NE(refusal(cut, Store::Mode::read_write), "");
    EXPECT_NE(refusal(cut, Store::Mode::read_only), "");
    EXPECT_TRUE(content(cut) == before);
  }
  const fs::path last = file("last.db");
  write(last, whole.substr(0, whole.size() - 4096));
  expect_refused_and_untouched(last, "damaged or cut short");
}

TEST_F(FileTest, AnotherApplicationsDatabaseIsRefused) {
  {
    SQLite::Database database(file("other.db").string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("CREATE TABLE songs (title TEXT); INSERT INTO songs VALUES ('x')");
  }
  expect_refused_and_untouched(file("other.db"), "another application");
  {
    SQLite::Database database(file("tagged.db").string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    database.exec("PRAGMA application_id = 7");
  }
  expect_refused_and_untouched(file("tagged.db"), "another application");
}

TEST_F(FileTest, AFutureVersionIsReadButNotWritten) {
  const fs::path path = tuned();
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
      .exec(
          "PRAGMA user_version = 1000; ALTER TABLE trials ADD COLUMN mood TEXT; PRAGMA journal_mode = "
          "DELETE");
  const std::string before = content(path);
  EXPECT_THAT(refusal(path, Store::Mode::read_write), HasSubstr("schema version 1000"));
  EXPECT_TRUE(content(path) == before);
  const Store store = Store::open(path, Store::Mode::read_only);
  EXPECT_EQ(store.version(), 1000);
  EXPECT_EQ(store.trials(1, 1).size(), 1u);
}

TEST_F(FileTest, AFutureVersionWithoutAColumnThatIsReadIsRefused) {
  const fs::path path = tuned();
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
      .exec(
          "PRAGMA user_version = 1000; DROP VIEW best; ALTER TABLE environments RENAME COLUMN os TO system");
  EXPECT_THAT(refusal(path, Store::Mode::read_only), HasSubstr("use a newer knobwise"));
}

TEST_F(FileTest, AVersionThatNeverExistedIsRefused) {
  const fs::path path = tuned();
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 0");
  EXPECT_THAT(refusal(path, Store::Mode::read_only), HasSubstr("which never existed"));
}

TEST_F(FileTest, AFailedMigrationChangesNothing) {
  const fs::path path = tuned();
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 0");
  EXPECT_THROW(Store::open(path, Store::Mode::read_write), std::runtime_error);
  SQLite::Database database(path.string());
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 0);
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM trials").getInt(), 1);
}

TEST_F(FileTest, AReadOnlyStoreRefusesToWrite) {
  Store store = Store::open(tuned(), Store::Mode::read_only);
  EXPECT_TRUE(store.read_only());
  EXPECT_THROW(store.intern_family(family("new")), UserError);
  EXPECT_EQ(store.intern_family(family()), 1);
}

TEST_F(FileTest, AReadOnlyFileInAReadOnlyFolderIsRead) {
  const fs::path path = tuned("a b%20#?.db");
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                               fs::perms::others_exec);
  EXPECT_EQ(as_ordinary_user([&] {
              const Store store = Store::open(path, Store::Mode::read_only);
              return std::to_string(store.counts().trials) + " trial";
            }),
            "1 trial");
  EXPECT_THAT(as_ordinary_user([&] { return refusal(path, Store::Mode::read_write); }),
              ::testing::AnyOf(HasSubstr("write-protected"), HasSubstr("cannot be written")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(FileTest, AWriteProtectedFileIsNotOpenedForWriting) {
  const fs::path path = tuned();
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(path, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  EXPECT_THAT(as_ordinary_user([&] { return refusal(path, Store::Mode::read_write); }),
              HasSubstr("write-protected"));
}

TEST_F(FileTest, ChangesThatCannotBeTakenOverAreNotIgnored) {
  const fs::path path = tuned();
  Store writer = Store::open(path, Store::Mode::read_write);
  writer.intern_family(family("in the log"));
  // A copy of a live database without its shared memory: the log holds what the file does not.
  const fs::path copy = folder_ / "copy";
  fs::create_directory(copy);
  fs::copy_file(path, copy / "tuned.db");
  fs::copy_file(path.string() + "-wal", copy / "tuned.db-wal");
  fs::permissions(folder_, fs::perms::owner_all | fs::perms::others_exec | fs::perms::others_read);
  fs::permissions(
      copy, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  EXPECT_THAT(as_ordinary_user([&] { return refusal(copy / "tuned.db", Store::Mode::read_only); }),
              HasSubstr("changes in a file next to it"));
  fs::permissions(copy, fs::perms::owner_all);
}

TEST_F(FileTest, AnyDamagedByteOfTheHeaderIsAUserErrorOrHarmless) {
  constexpr std::size_t kHeader = 100;
  const std::string whole = content(tuned());
  int refused = 0;
  for (std::size_t place = 0; place < kHeader; ++place) {
    for (const char value : {'\x01', '\x0c', '\xff'}) {
      std::string bytes = whole;
      bytes[place] = value;
      write(file("damaged.db"), bytes);
      refused += !refusal(file("damaged.db"), Store::Mode::read_only).empty();
    }
  }
  EXPECT_GT(refused, 60);
}

TEST_F(FileTest, AReaderSeesWhatALiveWriterCommits) {
  const fs::path path = tuned();
  Store writer = Store::open(path, Store::Mode::read_write);
  const Store reader = Store::open(path, Store::Mode::read_only);
  EXPECT_EQ(reader.find_family(family("later")), std::nullopt);
  const std::int64_t id = writer.intern_family(family("later"));
  EXPECT_EQ(reader.find_family(family("later")), id);
}

TEST_F(FileTest, AReaderMayStayAtOneMomentWhileAWriterCommits) {
  const fs::path path = tuned();
  Store writer = Store::open(path, Store::Mode::read_write);
  const Store reader = Store::open(path, Store::Mode::read_only);
  std::int64_t id = 0;
  reader.at_one_moment([&] {
    EXPECT_EQ(reader.find_family(family("later")), std::nullopt);
    id = writer.intern_family(family("later"));
    EXPECT_EQ(reader.find_family(family("later")), std::nullopt);
  });
  EXPECT_EQ(reader.find_family(family("later")), id);
  EXPECT_THROW(reader.at_one_moment([] { throw UserError("stopped"); }), UserError);
  EXPECT_EQ(reader.find_family(family("later")), id);
}

TEST(FileSystem, NetworkFileSystemsGetNoWriteAheadLog) {
  for (const std::uint64_t magic : {0x6969u, 0x517Bu, 0xFF534D42u, 0xFE534D42u, 0x65735546u, 0x01021997u}) {
    EXPECT_FALSE(supports_write_ahead_log(magic)) << magic;
  }
  for (const std::uint64_t magic : {0xEF53u, 0x58465342u, 0x9123683Eu, 0x01021994u, 0x794C7630u}) {
    EXPECT_TRUE(supports_write_ahead_log(magic)) << magic;
  }
  EXPECT_FALSE(supports_write_ahead_log(fs::path("/no/such/folder/a.db")));
}

/// A file system of the kind that network mounts are, if one can be mounted here.
class NetworkFileTest : public FileTest {
 protected:
  void SetUp() override {
    FileTest::SetUp();
    fs::create_directory(file("behind"));
    fs::create_directory(file("mount"));
    const std::string mount =
        "bindfs " + file("behind").string() + " " + file("mount").string() + " 2>/dev/null";
    mounted_ = std::system(mount.c_str()) == 0;
    if (!mounted_) GTEST_SKIP() << "bindfs cannot mount here";
  }
  void TearDown() override {
    const std::string unmount = "fusermount -u " + file("mount").string();
    if (mounted_) {
      EXPECT_EQ(std::system(unmount.c_str()), 0);
    }
    FileTest::TearDown();
  }

 private:
  bool mounted_ = false;
};

TEST_F(NetworkFileTest, IsWrittenWithoutALog) {
  Store store = Store::open(file("mount") / "a.db", Store::Mode::read_write);
  store.insert_trial(trial(intern_all(store), 0, 10));
  EXPECT_FALSE(fs::exists(file("mount") / "a.db-wal"));
  EXPECT_EQ(column(file("behind") / "a.db", "PRAGMA journal_mode"), "delete\n");
}

TEST_F(NetworkFileTest, AFileThatWasMadeWithALogIsReadAndWrittenWithoutOne) {
  fs::copy_file(tuned(), file("behind") / "a.db");
  const fs::path path = file("mount") / "a.db";
  {
    const Store reader = Store::open(path, Store::Mode::read_only);
    EXPECT_EQ(reader.counts().trials, 1);
    EXPECT_FALSE(fs::exists(path.string() + "-shm"));
    EXPECT_FALSE(fs::exists(path.string() + "-wal"));
  }
  Store writer = Store::open(path, Store::Mode::read_write);
  EXPECT_EQ(column(file("behind") / "a.db", "PRAGMA journal_mode"), "delete\n");
  const Store reader = Store::open(path, Store::Mode::read_only);
  writer.insert_trial(trial(intern_all(writer), 1, 10));
  EXPECT_EQ(reader.counts().trials, 2);
}

}  // namespace
}  // namespace knobwise::testing
