// Merging: nothing lost, nothing twice, in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>

#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MergeTest : public FolderTest {
 protected:
  fs::path merged(const std::string& name, const std::vector<fs::path>& sources) {
    Store store = Store::open(file(name), Store::Mode::read_write);
    for (const fs::path& source : sources) store.merge(source);
    return file(name);
  }

  void copy(const std::string& from, const std::string& to) {
    SQLite::Database(file(from).string(), SQLite::OPEN_READWRITE)
        .exec("VACUUM INTO '" + file(to).string() + "'");
  }
};

TEST_F(MergeTest, TheSameWorkOfTwoSessionsIsKeptTwiceWithItsOrigin) {
  for (const char* host : {"a", "b"}) {
    Store store = Store::open(file(std::string(host) + ".db"), Store::Mode::read_write);
    if (host[0] == 'b') store.intern_problem(problem("other ids here"));
    Ids ids = intern_all(store);
    SessionRecord record = session(ids);
    record.host = host;
    ids.session = store.begin_session(record);
    store.insert_trial(trial(ids, 0, host[0] == 'a' ? 10 : 12));
  }
  const fs::path both = merged("both.db", {file("a.db"), file("b.db")});
  EXPECT_EQ(
      column(both,
             "SELECT s.host, t.time_us FROM trials AS t JOIN sessions AS s ON s.id = t.session ORDER BY 1"),
      "a|10.0\nb|12.0\n");
  EXPECT_EQ(column(both, "SELECT time_us, trials FROM best"), "10.0|2\n");
  Store store = Store::open(both, Store::Mode::read_write);
  EXPECT_FALSE(store.insert_trial(trial(intern_all(store), 0, 1)).inserted);
  EXPECT_EQ(store.finished_trials(1, 1, store.find_problem(problem().line).value(), 1).size(), 1u);
}

TEST_F(MergeTest, ReportsWhatItAdded) {
  Store source = Store::open(file("a.db"), Store::Mode::read_write);
  const Ids ids = intern_all(source);
  const auto first = source.insert_trial(trial(ids, 0, 10));
  source.insert_trial(failed_trial(ids, 1, TrialStatus::crashed, "x"));
  source.put_code(first.id, "machine code");
  source.put_baseline({.device = ids.device,
                       .environment = ids.environment,
                       .problem = ids.problem,
                       .name = "lib",
                       .timing = timing(9),
                       .errors = errors(),
                       .started = utc_now()});
  Store target = Store::open(file("out.db"), Store::Mode::read_write);
  const MergeResult added = target.merge(file("a.db"));
  EXPECT_EQ(added.sessions, 1);
  EXPECT_EQ(added.trials, 2);
  EXPECT_EQ(added.baselines, 1);
  EXPECT_EQ(added.codes, 1);
  EXPECT_EQ(target.code(1), "machine code");
  source.update_timing(first.id, timing(11));
  const MergeResult again = target.merge(file("a.db"));
  EXPECT_EQ(again.sessions + again.trials + again.baselines + again.codes, 0);
  EXPECT_EQ(again.renewed, 1);
  EXPECT_EQ(target.trial(1).timing->time_us, 11);
  EXPECT_EQ(target.merge(file("a.db")).renewed, 0);
}

TEST_F(MergeTest, OlderTimingsAndStatesNeverReplaceNewerOnes) {
  {
    Store store = Store::open(file("new.db"), Store::Mode::read_write);
    const Ids ids = intern_all(store);
    store.insert_trial(trial(ids, 0, 10));
    copy("new.db", "old.db");
    store.update_timing(1, timing(12));
    store.finish_session(ids.session, SessionState::finished);
  }
  const std::string newest = dump(file("new.db"));
  EXPECT_EQ(dump(merged("1.db", {file("new.db"), file("old.db")})), newest);
  EXPECT_EQ(dump(merged("2.db", {file("old.db"), file("new.db")})), newest);
}

TEST_F(MergeTest, MergingIntoItselfChangesNothing) {
  Store store = Store::open(file("a.db"), Store::Mode::read_write);
  store.insert_trial(trial(intern_all(store), 0, 10));
  const std::string before = dump(file("a.db"));
  EXPECT_EQ(store.merge(file("a.db")).trials, 0);
  EXPECT_EQ(dump(file("a.db")), before);
}

TEST_F(MergeTest, AnOlderSchemaIsMergedAsItIs) {
  const fs::path old = "tests/db/schemas/schema_1.sqlite";
  const std::string bytes = content(old);
  EXPECT_EQ(dump(merged("out.db", {old})), dump(old));
  EXPECT_TRUE(content(old) == bytes);
}

TEST_F(MergeTest, ADamagedSourceIsNamedAndLeavesTheTargetAlone) {
  {
    Store store = Store::open(file("bad.db"), Store::Mode::read_write);
    const Ids ids = intern_all(store);
    for (int i = 0; i < 200; ++i) store.insert_trial(trial(ids, i, 10));
  }
  std::string bytes = content(file("bad.db"));
  for (std::size_t i = bytes.size() / 2; i < bytes.size(); ++i) bytes[i] = 'x';
  std::ofstream(file("bad.db"), std::ios::binary) << bytes;
  Store target = Store::open(file("out.db"), Store::Mode::read_write);
  target.insert_trial(trial(intern_all(target), 0, 10));
  const std::string before = dump(file("out.db"));
  try {
    target.merge(file("bad.db"));
    FAIL() << "merged";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("bad.db"));
  }
  EXPECT_EQ(dump(file("out.db")), before);
  EXPECT_TRUE(content(file("bad.db")) == bytes);
  // The connection goes on.
  EXPECT_EQ(target.merge("tests/db/schemas/schema_1.sqlite").trials, 9);
}

TEST_F(MergeTest, DamagedMachineCodeStaysBehind) {
  {
    Store store = Store::open(file("a.db"), Store::Mode::read_write);
    store.put_code(store.insert_trial(trial(intern_all(store), 0, 10)).id, "machine code");
  }
  SQLite::Database(file("a.db").string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE machine_code SET image = x'00112233'");
  const fs::path out = merged("out.db", {file("a.db")});
  EXPECT_EQ(column(out, "SELECT count(*) FROM trials"), "1\n");
  EXPECT_EQ(column(out, "SELECT count(*) FROM machine_code"), "0\n");
  EXPECT_EQ(column(out, "SELECT count(*) FROM trial_code"), "0\n");
}

/// Random databases that share devices, problems, sessions and work, some of them later copies of others.
class RandomMergeTest : public MergeTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    random_.seed(static_cast<unsigned>(GetParam()));
    for (const char* name : {"a.db", "b.db"}) {
      Store store = Store::open(file(name), Store::Mode::read_write);
      grow(store);
    }
    copy("a.db", "c.db");
    for (const char* name : {"a.db", "c.db"}) {
      Store store = Store::open(file(name), Store::Mode::read_write);
      change(store);
      grow(store);
    }
  }

  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  void grow(Store& store) {
    for (int s = below(3) + 1; s > 0; --s) {
      DeviceRecord device = gpu();
      device.multiprocessors += below(2);
      device.clock_khz += below(3);
      Ids ids{.device = store.intern_device(device),
              .environment = store.intern_environment(environment(std::to_string(below(2)))),
              .problem = store.intern_problem(problem("conv " + std::to_string(below(3)))),
              .family = store.intern_family(family(std::to_string(below(2))))};
      ids.session = store.begin_session(session(ids));
      for (int i = 0; i < below(8); ++i) {
        TrialRecord record = below(4) == 0 ? failed_trial(ids, below(6), TrialStatus::crashed, "x")
                                           : trial(ids, below(6), 1 + below(20));
        record.session_order = i;
        if (record.timing && below(3) == 0) record.errors = errors(0.5);
        const InsertResult result = store.insert_trial(record);
        if (result.inserted && below(3) == 0) store.put_code(result.id, "code " + std::to_string(below(3)));
      }
      if (below(2) == 0)
        store.put_baseline({.device = ids.device,
                            .environment = ids.environment,
                            .problem = ids.problem,
                            .name = "lib",
                            .timing = timing(1 + below(9)),
                            .errors = errors(),
                            .started = utc_now()});
      if (below(2) == 0) store.finish_session(ids.session, SessionState::interrupted);
    }
  }

  void change(Store& store) {
    for (const auto& [id, record] : store.sessions()) {
      for (const TrialRecord& trial : store.session_trials(id)) {
        if (trial.timing && below(2) == 0) store.update_timing(trial.id, timing(1 + below(20)));
        if (trial.timing && below(4) == 0)
          store.mark_failed(trial.id, TrialStatus::crashed, "the second time");
      }
      if (record.state == SessionState::running && below(2) == 0)
        store.finish_session(id, SessionState::finished);
    }
  }

  std::string state(const fs::path& path) {
    std::string text = dump(path);
    for (const std::string& line : dump_codes(path)) text += line + "\n";
    return text;
  }

  std::mt19937 random_;
};

TEST_P(RandomMergeTest, IsIdempotentCommutativeAndAssociative) {
  const fs::path a = file("a.db"), b = file("b.db"), c = file("c.db");
  const std::string abc = state(merged("abc.db", {a, b, c}));
  EXPECT_EQ(state(merged("cba.db", {c, b, a})), abc);
  EXPECT_EQ(state(merged("bca.db", {b, c, a})), abc);
  EXPECT_EQ(state(merged("twice.db", {a, b, a, c, c, b})), abc);
  EXPECT_EQ(state(merged("ab+c.db", {merged("ab.db", {a, b}), c})), abc);
  EXPECT_EQ(state(merged("c+ab.db", {c, file("ab.db")})), abc);
}

TEST_P(RandomMergeTest, KeepsEveryTrialOnceAndNoRowWithoutItsOwner) {
  const fs::path out = merged("abc.db", {file("a.db"), file("b.db"), file("c.db")});
  const char* key =
      "SELECT s.uuid, f.source_hash, t.configuration FROM trials AS t JOIN sessions AS s ON s.id = t.session "
      "JOIN "
      "families AS f ON f.id = t.family";
  std::set<std::string> wanted;
  for (const char* name : {"a.db", "b.db", "c.db"}) {
    for (const std::string& line : lines(file(name), key)) wanted.insert(line);
  }
  const std::vector<std::string> found = lines(out, key);
  EXPECT_EQ(found.size(), wanted.size());
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), wanted);
  EXPECT_EQ(column(out, "PRAGMA integrity_check"), "ok\n");
  EXPECT_EQ(column(out, "PRAGMA foreign_key_check"), "");
}

TEST_P(RandomMergeTest, WhatTriggersKeepAgreesWithTheTrials) {
  const fs::path out = merged("abc.db", {file("a.db"), file("b.db"), file("c.db")});
  EXPECT_EQ(
      column(out, "SELECT * FROM tallies ORDER BY 1, 2"),
      column(
          out,
          "SELECT problem, device, count(*), sum(status <> 'ok') FROM trials GROUP BY 1, 2 ORDER BY 1, 2"));
  EXPECT_EQ(column(out, "SELECT id, allclose FROM trials ORDER BY 1"),
            column(out,
                   "SELECT t.id, coalesce(a.allclose, 0) FROM trials AS t LEFT JOIN trial_accuracy AS a ON "
                   "a.trial = t.id ORDER BY 1"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMergeTest, ::testing::Range(0, 25));

}  // namespace
}  // namespace knobwise::testing
