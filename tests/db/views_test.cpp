// The views that people read.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include "db/store.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

using ::testing::ElementsAre;

class ViewsTest : public FolderTest {
 protected:
  /// All rows of a query as text, columns separated by '|'.
  std::vector<std::string> rows(const std::string& sql) {
    SQLite::Database database(file("tuned.db").string());
    SQLite::Statement query(database, sql);
    std::vector<std::string> all;
    while (query.executeStep()) {
      std::string row;
      for (int column = 0; column < query.getColumnCount(); ++column) {
        if (column > 0) row += '|';
        row += query.getColumn(column).getString();
      }
      all.push_back(row);
    }
    return all;
  }

  void SetUp() override {
    FolderTest::SetUp();
    store_.emplace(Store::open(file("tuned.db"), Store::Mode::read_write));
    ids_ = intern_all(*store_);
  }
  void TearDown() override {
    store_.reset();
    FolderTest::TearDown();
  }

  std::optional<Store> store_;
  Ids ids_;
};

TEST_F(ViewsTest, BestShowsTheFastestAccurateTrialOfEachProblemAndDevice) {
  TrialRecord rough = trial(ids_, 0, 1000);
  rough.errors = errors(1e-3, 3e-4);
  store_->insert_trial(rough);
  store_->insert_trial(trial(ids_, 1, 5826));
  store_->insert_trial(trial(ids_, 2, 6000));
  store_->insert_trial(failed_trial(ids_, 3, TrialStatus::crashed, "x"));
  TrialRecord nan = trial(ids_, 4, 10);
  nan.errors[1].frac_outside = std::numeric_limits<double>::quiet_NaN();
  store_->insert_trial(nan);
  DeviceRecord half = gpu();
  half.multiprocessors = 66;
  TrialRecord elsewhere = trial(ids_, 1, 9000);
  elsewhere.session_order = 5;
  elsewhere.device = store_->intern_device(half);
  store_->insert_trial(elsewhere);

  EXPECT_THAT(
      rows("SELECT problem, device, family, configuration, time_us, gflops, max_abs, trials, failed FROM "
           "best"),
      ElementsAre("conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7|NVIDIA H200 (132 SMs, 140 GiB)|cuda/direct_conv|"
                  "{\"tile\":1}|5826.0|100000.0|1.0e-06|5|1",
                  "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7|NVIDIA H200 (66 SMs, 140 GiB)|cuda/direct_conv|"
                  "{\"tile\":1}|9000.0|64733.3|1.0e-06|1|0"));
}

TEST_F(ViewsTest, BestAgreesWithTheStore) {
  for (int i = 0; i < 100; ++i) {
    TrialRecord record = trial(ids_, i, 1 + (i * 37) % 100);
    record.errors = errors(i % 3 == 0 ? 0 : 0.25);
    store_->insert_trial(record);
  }
  const auto answer = store_->best(ids_.problem, ids_.device, allclose_limits());
  EXPECT_THAT(rows("SELECT trial_id FROM best"), ElementsAre(std::to_string(answer.trial->id)));
}

TEST_F(ViewsTest, AnEmptyDatabaseHasEmptyViews) {
  for (const char* view : {"best", "failures", "progress", "trial_accuracy"}) {
    EXPECT_TRUE(rows(std::string("SELECT * FROM ") + view).empty()) << view;
  }
}

TEST_F(ViewsTest, FailuresAreCountedByStatusWithAnExample) {
  store_->insert_trial(failed_trial(ids_, 0, TrialStatus::timeout, "over 10 s"));
  store_->insert_trial(failed_trial(ids_, 1, TrialStatus::compile_failed, "first"));
  store_->insert_trial(failed_trial(ids_, 2, TrialStatus::compile_failed, "second"));
  store_->insert_trial(trial(ids_, 3, 1));
  EXPECT_THAT(rows("SELECT family, status, count, example FROM failures"),
              ElementsAre("cuda/direct_conv|compile_failed|2|first", "cuda/direct_conv|timeout|1|over 10 s"));
}

TEST_F(ViewsTest, ProgressFollowsTheBestSoFar) {
  TrialRecord rough = trial(ids_, 1, 20);
  rough.errors = errors(0.5);
  store_->insert_trial(failed_trial(ids_, 0, TrialStatus::crashed, "x"));
  store_->insert_trial(rough);
  store_->insert_trial(trial(ids_, 2, 40));
  store_->insert_trial(trial(ids_, 3, 30));
  store_->insert_trial(trial(ids_, 4, 35));
  EXPECT_THAT(rows("SELECT trial, wall_seconds, status, time_us, best_us, best_allclose_us FROM progress"),
              ElementsAre("0|0.5|crashed|||", "1|1.5|ok|20.0|20.0|", "2|2.5|ok|40.0|20.0|40.0",
                          "3|3.5|ok|30.0|20.0|30.0", "4|4.5|ok|35.0|20.0|30.0"));
}

TEST_F(ViewsTest, ProgressKeepsSessionsApart) {
  store_->insert_trial(trial(ids_, 0, 10));
  Ids second = ids_;
  second.session = store_->begin_session(session(ids_));
  TrialRecord record = trial(second, 1, 20);
  record.session_order = 0;
  store_->insert_trial(record);
  EXPECT_THAT(rows("SELECT best_us FROM progress"), ElementsAre("10.0", "20.0"));
}

TEST_F(ViewsTest, AccuracyIsTheWorstAndNanIsNotHidden) {
  TrialRecord record = trial(ids_, 0, 10);
  record.errors[0].max_abs = 3;
  record.errors[1].rms = std::numeric_limits<double>::quiet_NaN();
  store_->insert_trial(record);
  EXPECT_THAT(rows("SELECT distributions, max_abs, rms, allclose FROM trial_accuracy"),
              ElementsAre("3|3.0||1"));
  record = trial(ids_, 1, 10);
  record.errors[2].frac_outside = std::numeric_limits<double>::quiet_NaN();
  store_->insert_trial(record);
  EXPECT_THAT(rows("SELECT frac_outside, allclose FROM trial_accuracy WHERE trial = 2"), ElementsAre("|0"));
}

TEST_F(ViewsTest, TheSchemaItselfRefusesImpossibleTimes) {
  store_->insert_trial(trial(ids_, 0, 10));
  SQLite::Database database(file("tuned.db").string(), SQLite::OPEN_READWRITE);
  for (const char* time : {"0", "-1", "0.0", "9e999", "-9e999", "'fast'", "NULL"}) {
    EXPECT_THROW(database.exec(std::string("UPDATE trials SET time_us = ") + time), SQLite::Exception)
        << time;
  }
  EXPECT_THROW(database.exec("UPDATE trials SET status = 'splendid'"), SQLite::Exception);
  EXPECT_THROW(database.exec("UPDATE sessions SET state = 'asleep'"), SQLite::Exception);
  EXPECT_THROW(database.exec("UPDATE trials SET samples = x'010203'"), SQLite::Exception);
}

}  // namespace
}  // namespace knobwise::testing
