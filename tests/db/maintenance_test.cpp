// Pruning and checking.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "db/store.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MaintenanceTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    store_.emplace(Store::open(file("tuned.db"), Store::Mode::read_write));
    ids_ = intern_all(*store_);
  }
  /// Times 10, 11, ... ; every second one of lower precision and outside 1e-4; then failures.
  void fill(int good, int failed) {
    for (int i = 0; i < good; ++i) {
      TrialRecord record = trial(ids_, i, 10 + i);
      if (i % 2 == 0) record.precision = "tf32", record.errors = errors(0.5);
      store_->insert_trial(record);
    }
    for (int i = 0; i < failed; ++i)
      store_->insert_trial(failed_trial(ids_, good + i, TrialStatus::crashed, "x"));
  }
  std::string sql(const std::string& text) { return column(file("tuned.db"), text); }
  void change(const std::string& text) {
    SQLite::Database(file("tuned.db").string(), SQLite::OPEN_READWRITE).exec(text);
  }

  std::optional<Store> store_;
  Ids ids_;
};

TEST_F(MaintenanceTest, FailedTrialsAreRemoved) {
  fill(4, 3);
  EXPECT_EQ(store_->prune_preview({.groups = {}, .failed = true}).trials, 3);
  EXPECT_EQ(store_->counts().trials, 7);
  EXPECT_EQ(store_->prune({.groups = {}, .failed = true}).trials, 3);
  EXPECT_EQ(sql("SELECT count(*), sum(status = 'ok') FROM trials"), "4|4\n");
  EXPECT_EQ(sql("SELECT trials, failed FROM tallies"), "4|0\n");
  EXPECT_THAT(store_->check(), IsEmpty());
}

TEST_F(MaintenanceTest, TheBestOfEachPrecisionAndOfTheAccurateStay) {
  fill(10, 2);
  const std::string best = sql("SELECT problem, time_us FROM best");
  EXPECT_EQ(store_->prune({.groups = {}, .keep_best = 2}).trials, 8);
  EXPECT_EQ(sql("SELECT time_us FROM trials ORDER BY 1"), "10.0\n11.0\n12.0\n13.0\n");
  EXPECT_EQ(sql("SELECT problem, time_us FROM best"), best);
}

TEST_F(MaintenanceTest, EachProblemDeviceAndVersionKeepsItsBest) {
  fill(4, 0);
  Ids other = ids_;
  other.family = store_->intern_family(family("new source"));
  other.session = store_->begin_session(session(other));
  for (int i = 0; i < 4; ++i) store_->insert_trial(trial(other, i, 100 + i));
  store_->prune({.groups = {}, .keep_best = 1});
  EXPECT_EQ(sql("SELECT time_us FROM trials ORDER BY 1"), "10.0\n11.0\n100.0\n");
}

TEST_F(MaintenanceTest, GroupsAreRemovedWithTheirEmptiedSessions) {
  fill(2, 1);
  store_->put_code(1, "machine code");
  store_->finish_session(ids_.session, SessionState::finished);
  Ids other = ids_;
  other.environment = store_->intern_environment(environment("590.1"));
  other.session = store_->begin_session(session(other));
  store_->insert_trial(trial(other, 0, 50));
  const std::vector<TrialGroup> groups = store_->groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].trials, 3);
  const PruneResult result = store_->prune({.groups = {groups[0]}});
  EXPECT_EQ(result.trials, 3);
  EXPECT_EQ(result.sessions, 1);
  EXPECT_EQ(result.codes, 1);
  EXPECT_EQ(sql("SELECT count(*) FROM sessions"), "1\n");
  EXPECT_EQ(sql("SELECT count(*) FROM machine_code"), "0\n");
  EXPECT_EQ(sql("SELECT time_us FROM trials"), "50.0\n");
  EXPECT_THAT(store_->check(), IsEmpty());
}

TEST_F(MaintenanceTest, ARunningSessionStaysEvenWhenEmpty) {
  fill(0, 2);
  EXPECT_EQ(store_->prune({.groups = {}, .failed = true}).sessions, 0);
  EXPECT_EQ(store_->session(ids_.session).state, SessionState::running);
}

TEST_F(MaintenanceTest, AllMachineCodeCanGoAlone) {
  fill(3, 0);
  store_->put_code(1, "a");
  store_->put_code(2, "b");
  EXPECT_EQ(store_->prune({.groups = {}, .code = true}).codes, 2);
  EXPECT_EQ(store_->counts().trials, 3);
  EXPECT_EQ(sql("SELECT count(*) FROM machine_code"), "0\n");
}

TEST_F(MaintenanceTest, TheFileBecomesSmaller) {
  fill(2000, 0);
  SQLite::Database(file("tuned.db").string(), SQLite::OPEN_READWRITE).exec("PRAGMA wal_checkpoint(TRUNCATE)");
  const auto before = std::filesystem::file_size(file("tuned.db"));
  store_->prune({.groups = {}, .keep_best = 1});
  EXPECT_LT(std::filesystem::file_size(file("tuned.db")), before / 4);
}

TEST_F(MaintenanceTest, APruneThatFailsChangesNothing) {
  fill(4, 2);
  change("CREATE TRIGGER guard BEFORE DELETE ON trials WHEN OLD.id = 6 BEGIN SELECT RAISE(ABORT, 'no'); END");
  const std::string before = dump(file("tuned.db"));
  EXPECT_THROW(store_->prune({.groups = {}, .failed = true}), std::invalid_argument);
  EXPECT_EQ(dump(file("tuned.db")), before);
}

TEST_F(MaintenanceTest, ASoundFileHasNoFindings) {
  fill(6, 2);
  store_->put_code(1, "machine code");
  EXPECT_THAT(store_->check(), IsEmpty());
  EXPECT_THAT(Store::open("tests/db/schemas/schema_1.sqlite", Store::Mode::read_only).check(), IsEmpty());
}

TEST_F(MaintenanceTest, FindsDamagedPages) {
  fill(300, 2);
  store_.reset();
  for (const char* name : {"trials", "trial_errors", "trials_by_time"}) {
    const auto page = std::stoul(
        column(file("tuned.db"), "SELECT max(pageno) FROM dbstat WHERE name = '" + std::string(name) + "'"));
    std::string bytes = content(file("tuned.db"));
    constexpr std::size_t kPage = 4096;
    bytes.replace(page * kPage - 200, 200, 200, '\xAA');
    std::ofstream(file("damaged.db"), std::ios::binary) << bytes;
    EXPECT_THAT(Store::open(file("damaged.db"), Store::Mode::read_only).check(),
                Contains(HasSubstr("integrity")))
        << name;
  }
}

TEST_F(MaintenanceTest, FindsReferencesToMissingRows) {
  fill(3, 0);
  change("PRAGMA foreign_keys = OFF; DELETE FROM families");
  EXPECT_THAT(store_->check(), ElementsAre("references: 3 rows of trials refer to missing families"));
}

TEST_F(MaintenanceTest, FindsDamagedMachineCode) {
  fill(1, 0);
  store_->put_code(1, "machine code");
  change("UPDATE machine_code SET image = x'00'");
  EXPECT_THAT(store_->check(), ElementsAre(HasSubstr("is not what was stored")));
}

TEST_F(MaintenanceTest, FindsRowsThatBreakTheRules) {
  fill(2, 0);
  change("PRAGMA ignore_check_constraints = ON; UPDATE trials SET time_us = -1 WHERE id = 1");
  EXPECT_THAT(store_->check(), Contains(HasSubstr("CHECK constraint failed in trials")));
}

TEST_F(MaintenanceTest, FindsFiguresThatDoNotAgree) {
  fill(4, 0);
  change("UPDATE trials SET allclose = 1 - allclose WHERE id = 1; UPDATE tallies SET trials = 99");
  EXPECT_THAT(store_->check(), ElementsAre(HasSubstr("1 accuracy marks"), HasSubstr("1 tallies")));
}

}  // namespace
}  // namespace knobwise::testing
