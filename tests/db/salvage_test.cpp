// Damaged files: said clearly, never changed, and what can be read is got out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "db/layered_store.h"
#include "db/salvage.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::size_t kPage = 4096;
constexpr int kTrials = 400;

class SalvageTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    {
      Store store = Store::open(file("whole.db"), Store::Mode::read_write);
      const Ids ids = intern_all(store);
      std::vector<TrialRecord> trials;
      for (int i = 0; i < kTrials; ++i) trials.push_back(trial(ids, i, 10 + i));
      store.insert_trials(trials);
      store.put_code(1, "machine code");
      store.put_baseline({.device = ids.device,
                          .environment = ids.environment,
                          .problem = ids.problem,
                          .name = "lib",
                          .timing = timing(9),
                          .errors = errors(),
                          .started = utc_now()});
    }
    bytes_ = content(file("whole.db"));
  }

  fs::path write(const std::string& bytes, const std::string& name = "damaged.db") {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }

  std::string with_page(std::size_t page, char fill) const {
    std::string bytes = bytes_;
    bytes.replace((page - 1) * kPage, kPage, kPage, fill);
    return bytes;
  }

  SalvageResult salvaged(const std::string& bytes) {
    const fs::path damaged = write(bytes);
    fs::remove(file("out.db"));
    const SalvageResult result = salvage(damaged, file("out.db"));
    EXPECT_TRUE(content(damaged) == bytes);
    EXPECT_EQ(Store::open(file("out.db"), Store::Mode::read_write).check(), std::vector<std::string>());
    return result;
  }

  std::string bytes_;
};

TEST_F(SalvageTest, AWholeFileComesOutWhole) {
  const SalvageResult result = salvaged(bytes_);
  EXPECT_EQ(result.trials, kTrials);
  EXPECT_EQ(result.codes, 1);
  EXPECT_TRUE(result.damaged.empty());
  EXPECT_EQ(dump(file("out.db")), dump(file("whole.db")));
  EXPECT_EQ(dump_codes(file("out.db")), dump_codes(file("whole.db")));
}

TEST_F(SalvageTest, NothingIsOverwritten) {
  write("precious", "out.db");
  EXPECT_THROW(salvage(file("whole.db"), file("out.db")), UserError);
  EXPECT_EQ(content(file("out.db")), "precious");
}

TEST_F(SalvageTest, APageOfTrialsCostsItsTrialsOnly) {
  const std::vector<std::string> pages =
      lines(file("whole.db"), "SELECT pageno FROM dbstat WHERE name = 'trials' AND pagetype = 'leaf'");
  ASSERT_GT(pages.size(), 10u);  // about 30 trials each
  for (const std::size_t index : {std::size_t{0}, pages.size() / 2, pages.size() - 1}) {
    const SalvageResult result = salvaged(with_page(std::stoul(pages[index]), '\xAA'));
    EXPECT_GE(result.trials, kTrials - 40) << index;
    EXPECT_LT(result.trials, kTrials) << index;
  }
}

TEST_F(SalvageTest, TwoDamagedPlacesKeepWhatIsBetween) {
  const std::vector<std::string> pages =
      lines(file("whole.db"),
            "SELECT pageno FROM dbstat WHERE name = 'trials' AND pagetype = 'leaf' ORDER BY path");
  std::string bytes = with_page(std::stoul(pages[pages.size() / 4]), '\0');
  bytes.replace((std::stoul(pages[3 * pages.size() / 4]) - 1) * kPage, kPage, kPage, '\0');
  const SalvageResult result = salvaged(bytes);
  EXPECT_GE(result.trials, kTrials - 80);
  EXPECT_THAT(result.damaged, ::testing::Contains("trials"));
}

TEST_F(SalvageTest, ATruncatedFileGivesItsBeginning) {
  const SalvageResult result = salvaged(bytes_.substr(0, bytes_.size() / 2));
  EXPECT_GT(result.trials, kTrials / 10);
  EXPECT_EQ(result.problems, 1);
}

TEST_F(SalvageTest, ALostFirstPageIsRebuilt) {
  for (const char fill : {'\0', 'x'}) {
    const SalvageResult result = salvaged(with_page(1, fill));
    EXPECT_TRUE(result.schema_rebuilt);
    EXPECT_EQ(result.trials, kTrials);
    EXPECT_EQ(dump(file("out.db")), dump(file("whole.db")));
  }
}

/// Where a table begins differs from file to file: in a copy, in one that a new version upgraded.
TEST_F(SalvageTest, ALostFirstPageIsRebuiltInACopy) {
  SQLite::Database(file("whole.db").string(), SQLite::OPEN_READWRITE)
      .exec("VACUUM INTO '" + file("copy.db").string() + "'");
  bytes_ = content(file("copy.db"));
  const SalvageResult result = salvaged(with_page(1, 'x'));
  EXPECT_TRUE(result.schema_rebuilt);
  EXPECT_EQ(dump(file("out.db")), dump(file("whole.db")));
  EXPECT_EQ(dump_codes(file("out.db")), dump_codes(file("whole.db")));
}

TEST_F(SalvageTest, ALostFirstPageIsRebuiltInAnOldFileUpgradedOrNot) {
  for (const char* old : {"schema_1.sqlite", "schema_1_first_draft.sqlite"}) {
    for (const bool upgraded : {false, true}) {
      SCOPED_TRACE(std::string(old) + (upgraded ? ", upgraded" : ""));
      const fs::path path = file("old.db");
      fs::copy_file(fs::path("tests/db/schemas") / old, path, fs::copy_options::overwrite_existing);
      fs::permissions(path, fs::perms::owner_all);
      if (upgraded) Store::open(path, Store::Mode::read_write);
      bytes_ = content(path);
      const SalvageResult result = salvaged(with_page(1, 'x'));
      EXPECT_TRUE(result.schema_rebuilt);
      EXPECT_EQ(result.trials, 9);
      EXPECT_EQ(dump(file("out.db")), dump(path));
    }
  }
}

/// The rows of a table whose top page is lost are found by what they look like.
TEST_F(SalvageTest, ALostTopPageOfATableCostsLittle) {
  const auto top = [&](const std::string& table) {
    return std::stoul(
        column(file("whole.db"), "SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'"));
  };
  EXPECT_EQ(salvaged(with_page(top("trials"), '\0')).trials, kTrials);
  EXPECT_EQ(dump(file("out.db")), dump(file("whole.db")));
  // The top page of errors holds some itself: no trial keeps a part of its errors.
  EXPECT_EQ(salvaged(with_page(top("trial_errors"), '\0')).trials, kTrials);
  const int measured = std::stoi(column(file("out.db"), "SELECT count(DISTINCT trial) FROM trial_errors"));
  EXPECT_GT(measured, kTrials * 9 / 10);
  EXPECT_LT(measured, kTrials);
  EXPECT_EQ(column(file("out.db"), "SELECT count(*) FROM trial_errors"), std::to_string(3 * measured) + "\n");
}

/// Errors of baselines never become those of trials: a trial would seem more accurate than it is.
TEST_F(SalvageTest, ErrorsOfBaselinesAreNoneOfTrials) {
  const std::string pages = column(file("whole.db"), "SELECT pageno FROM dbstat WHERE name = 'trial_errors'");
  std::string bytes = with_page(1, 'x');
  std::istringstream numbers(pages);
  for (std::size_t page; numbers >> page;) bytes.replace((page - 1) * kPage, kPage, kPage, '\0');
  EXPECT_EQ(salvaged(bytes).trials, kTrials);
  EXPECT_EQ(column(file("out.db"), "SELECT count(*) FROM trial_errors"), "0\n");
  EXPECT_EQ(column(file("out.db"), "SELECT count(*) FROM baseline_errors"), "3\n");
}

TEST_F(SalvageTest, LostSessionsCostNoTrials) {
  const std::string page = column(file("whole.db"), "SELECT pageno FROM dbstat WHERE name = 'sessions'");
  const SalvageResult result = salvaged(with_page(std::stoul(page), '\0'));
  EXPECT_EQ(result.trials, kTrials);
  EXPECT_EQ(column(file("out.db"), "SELECT strategy FROM sessions"), "lost\n");
}

TEST_F(SalvageTest, RandomDamageNeverStopsIt) {
  std::mt19937 random(11);
  int rescued = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = bytes_;
    for (unsigned hits = 1 + random() % 20; hits > 0; --hits)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(kPage + random() % bytes.size());
    const fs::path damaged = write(bytes);
    fs::remove(file("out.db"));
    try {
      rescued += salvage(damaged, file("out.db")).trials > 0;
      EXPECT_EQ(column(file("out.db"), "PRAGMA integrity_check"), "ok\n");
      EXPECT_EQ(column(file("out.db"), "PRAGMA foreign_key_check"), "");
    } catch (const UserError&) {
      EXPECT_FALSE(fs::exists(file("out.db")));
    }
    EXPECT_TRUE(content(damaged) == bytes);
  }
  EXPECT_GT(rescued, 30);
}

TEST_F(SalvageTest, AFileThatIsNoDatabaseIsRefused) {
  EXPECT_THROW(salvage(write("a letter to a friend\n"), file("out.db")), UserError);
  EXPECT_THROW(salvage(write(std::string(100'000, 'x')), file("out.db")), UserError);
  EXPECT_THROW(salvage(write(""), file("out.db")), UserError);
  EXPECT_THROW(salvage(file("none.db"), file("out.db")), UserError);
  EXPECT_FALSE(fs::exists(file("out.db")));
}

/// Whatever a single damaged byte does, reading says it clearly or is right, and the file stays as it is.
TEST_F(SalvageTest, AFlippedByteIsAUserErrorOrHarmless) {
  std::mt19937 random(5);
  for (int round = 0; round < 150; ++round) {
    std::string bytes = bytes_;
    // The first pages hold the header, the schema and the small tables, where damage does most.
    const std::size_t place = random() % (round % 2 == 0 ? 40 * kPage : bytes.size());
    bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8));
    const fs::path damaged = write(bytes);
    try {
      const Store store = Store::open(damaged, Store::Mode::read_only);
      store.counts();
      store.check();
      for (const auto& [id, problem] : store.problems()) {
        for (const auto& [device, record] : store.devices()) {
          store.best(id, device, allclose_limits());
          store.trials(id, device);
        }
      }
      for (const auto& [id, session] : store.sessions()) store.session_trials(id);
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("damaged.db"));
    }
    EXPECT_TRUE(content(damaged) == bytes) << place;
  }
}

TEST_F(SalvageTest, ADamagedLayerDoesNotKeepOthersFromServing) {
  const std::vector<std::string> pages = lines(
      file("whole.db"), "SELECT pageno FROM dbstat WHERE name IN ('trials_accurate', 'trials_by_time')");
  std::string bytes = bytes_;
  for (const std::string& page : pages) bytes.replace((std::stoul(page) - 1) * kPage, kPage, kPage, '\xAA');
  std::vector<Store> layers;
  layers.push_back(Store::open(write(bytes), Store::Mode::read_only));
  layers.push_back(Store::open(file("whole.db"), Store::Mode::read_only));
  const LayeredStore stores(std::move(layers));
  std::vector<std::string> notes;
  const auto found = stores.best(problem().line, gpu(), allclose_limits(), {}, &notes);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->layer, 1u);
  EXPECT_THAT(notes, ::testing::ElementsAre(HasSubstr("damaged.db")));
}

}  // namespace
}  // namespace knobwise::testing
