// `knobwise db`: the actions as a person uses them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/db/dump.h"
#include "tests/db/fixtures.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using knobwise::testing::column;
using knobwise::testing::dump;
using nlohmann::json;
using ::testing::HasSubstr;

class DatabaseActions : public ::testing::Test {
 protected:
  CommandResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "db");
    return knobwise(arguments, folder_);
  }
  std::string path(const std::string& name) { return folder_ / name; }

  std::string database(const std::string& name, int good = 3, int failed = 2) {
    using namespace knobwise::testing;
    Store store = Store::open(path(name), Store::Mode::read_write);
    const Ids ids = intern_all(store);
    for (int i = 0; i < good; ++i) store.insert_trial(trial(ids, i, 10 + i));
    for (int i = 0; i < failed; ++i)
      store.insert_trial(failed_trial(ids, good + i, TrialStatus::crashed, "x"));
    store.finish_session(ids.session, SessionState::finished);
    return path(name);
  }

  TemporaryFolder folder_;
};

TEST_F(DatabaseActions, EachExplainsItself) {
  EXPECT_EQ(run({}).status, 2);
  EXPECT_THAT(run({"--help"}).out, HasSubstr("salvage"));
  for (const std::string action : {"info", "merge", "export", "import", "prune", "check", "salvage"}) {
    const CommandResult result = run({action, "--help"});
    EXPECT_EQ(result.status, 0) << action;
    EXPECT_THAT(result.out, HasSubstr("knobwise db " + action));
    EXPECT_THAT(result.out, HasSubstr("Examples:\n"));
    const CommandResult wrong = run({action, "--no-such-option"});
    EXPECT_EQ(wrong.status, 2) << action;
    EXPECT_THAT(wrong.err, HasSubstr("knobwise db " + action + " --help"));
  }
  EXPECT_EQ(run({"explode"}).status, 2);
}

TEST_F(DatabaseActions, InfoShowsEachLayerInOrder) {
  const std::string mine = database("mine.db"), site = database("site.db", 1, 0);
  const CommandResult result = run({"info", "--json", "--db", mine, "--db", site});
  ASSERT_EQ(result.status, 0) << result.err;
  const json layers = json::parse(result.out);
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[0].at("path"), mine);
  EXPECT_EQ(layers[0].at("schema"), Store::latest_version());
  EXPECT_EQ(layers[0].at("trials"), 5);
  EXPECT_EQ(layers[0].at("trials_ok"), 3);
  EXPECT_EQ(layers[0].at("devices")[0].at("name"), "NVIDIA H200");
  EXPECT_EQ(layers[0].at("environments").size(), 1u);
  EXPECT_EQ(layers[0].at("best")[0].at("time_us"), 10.0);
  EXPECT_EQ(layers[0].at("stale").at("source"), 5) << "this build's direct_conv has another hash";
  EXPECT_GT(layers[0].at("bytes"), 4096);
  EXPECT_EQ(layers[1].at("trials"), 1);
  const CommandResult text = run({"info", "--db", mine});
  EXPECT_THAT(text.out, HasSubstr("5 trials (3 ok, 2 failed)"));
  EXPECT_THAT(text.out, HasSubstr("stale: 5 trials of other kernel sources"));
}

TEST_F(DatabaseActions, TheEnvironmentNamesTheLayersWhenNoOptionDoes) {
  const std::string mine = database("mine.db"), site = database("site.db");
  setenv("KNOBWISE_DB", (mine + ":" + site).c_str(), 1);
  const CommandResult both = run({"info", "--json"});
  const CommandResult one = run({"info", "--json", "--db", site});
  unsetenv("KNOBWISE_DB");
  EXPECT_EQ(json::parse(both.out).size(), 2u);
  EXPECT_EQ(json::parse(one.out).size(), 1u);
}

TEST_F(DatabaseActions, ADamagedLayerIsSaidAndTheOthersServe) {
  const std::string good = database("good.db");
  std::ofstream(path("notes.db")) << "a text file";
  const CommandResult result = run({"info", "--json", "--db", path("notes.db"), "--db", good});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(json::parse(result.out).size(), 1u);
  EXPECT_THAT(result.err, HasSubstr("notes.db' is not a database"));
  EXPECT_EQ(knobwise::testing::content(path("notes.db")), "a text file");
}

TEST_F(DatabaseActions, MergeMakesOneOfTwo) {
  const std::string a = database("a.db"), b = database("b.db", 1, 0);
  const CommandResult result = run({"merge", path("out.db"), a, b});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("out.db: 2 sessions, 6 trials"));
  const std::string once = dump(path("out.db"));
  EXPECT_EQ(run({"merge", path("out.db"), b, a}).status, 0);
  EXPECT_EQ(dump(path("out.db")), once);
}

TEST_F(DatabaseActions, AMergeOfAFileThatCannotBeReadMakesNothing) {
  std::ofstream(path("notes.db")) << "a text file";
  const CommandResult result = run({"merge", path("out.db"), database("a.db"), path("notes.db")});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("notes.db"));
  EXPECT_FALSE(std::filesystem::exists(path("out.db")));
  EXPECT_EQ(run({"merge", path("out.db")}).status, 2);
}

TEST_F(DatabaseActions, ExportAndImportGoThereAndBack) {
  const std::string a = database("a.db");
  for (const std::string name : {"a.json", "a.csv", "a.sql"}) {
    const CommandResult out = run({"export", path(name), "--db", a});
    ASSERT_EQ(out.status, 0) << out.err;
    EXPECT_THAT(out.out, HasSubstr("5 trials"));
    const CommandResult in = run({"import", path(name), "--db", path(name + ".db")});
    ASSERT_EQ(in.status, 0) << in.err;
    EXPECT_EQ(dump(path(name + ".db")), dump(a)) << name;
  }
  EXPECT_EQ(run({"export", path("a.txt"), "--db", a}).status, 2);
  EXPECT_EQ(run({"export", path("no/such/a.csv"), "--db", a}).status, 2);
  EXPECT_EQ(run({"import", path("none.csv"), "--db", path("new.db")}).status, 2);
  std::ofstream(path("notes.json")) << "a text file";
  EXPECT_EQ(run({"import", path("notes.json"), "--db", path("new.db")}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(path("new.db")));
}

TEST_F(DatabaseActions, PruneAsksFirst) {
  const std::string a = database("a.db");
  const std::string before = dump(a);
  std::ofstream(path("no")) << "n\n";
  const auto answer = [&](const std::string& file) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (!std::freopen(file.c_str(), "r", stdin) || !std::freopen(path("said").c_str(), "w", stdout))
        _exit(126);
      execl(KNOBWISE_EXECUTABLE, "knobwise", "db", "prune", "--failed", "--db", a.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(answer(path("no")), 1);
  EXPECT_THAT(knobwise::testing::content(path("said")), HasSubstr("Remove 2 of 5 trials"));
  EXPECT_EQ(answer("/dev/null"), 1);
  EXPECT_EQ(dump(a), before);
  std::ofstream(path("yes")) << "y\n";
  EXPECT_EQ(answer(path("yes")), 0);
  EXPECT_EQ(column(a, "SELECT count(*) FROM trials"), "3\n");
  EXPECT_EQ(run({"prune", "--keep-best", "1", "--yes", "--db", a}).status, 0);
  EXPECT_EQ(column(a, "SELECT time_us FROM trials"), "10.0\n");
  EXPECT_EQ(run({"prune", "--stale", "--yes", "--db", a}).status, 0);
  EXPECT_EQ(column(a, "SELECT count(*) FROM trials"), "0\n");
}

TEST_F(DatabaseActions, PruneWantsToKnowWhat) {
  const std::string a = database("a.db");
  EXPECT_EQ(run({"prune", "--yes", "--db", a}).status, 2);
  EXPECT_EQ(run({"prune", "--keep-best", "0", "--yes", "--db", a}).status, 2);
  EXPECT_EQ(run({"prune", "--failed", "--yes", "--db", path("none.db")}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(path("none.db")));
}

TEST_F(DatabaseActions, CheckFindsUnknownKnobsAndValuesOutsideTheSpace) {
  const std::string problem = "conv2d n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1";
  const CommandResult tuned = knobwise({"tune", problem, "--device", "cpu", "--family", "direct_conv",
                                        "--max-trials", "2", "--db", path("a.db")},
                                       folder_);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  const CommandResult sound = run({"check", "--db", path("a.db")});
  EXPECT_EQ(sound.status, 0) << sound.out;
  EXPECT_THAT(sound.out, HasSubstr("sound"));
  SQLite::Database(path("a.db"), SQLite::OPEN_READWRITE)
      .exec("UPDATE trials SET configuration = json_set(configuration, '$.no_such_knob', 1) WHERE id = 1");
  const CommandResult unknown = run({"check", "--db", path("a.db")});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.out, HasSubstr("no_such_knob"));
  SQLite::Database(path("a.db"), SQLite::OPEN_READWRITE)
      .exec(
          "UPDATE trials SET configuration = json_set(json_remove(configuration, '$.no_such_knob'), '$.' || "
          "(SELECT "
          "key FROM json_each(configuration) LIMIT 1), 123457) WHERE id = 1");
  const CommandResult outside = run({"check", "--db", path("a.db")});
  EXPECT_EQ(outside.status, 1);
  EXPECT_THAT(outside.out, HasSubstr("123457"));
}

TEST_F(DatabaseActions, SalvageGetsOutWhatCanBeRead) {
  const std::string a = database("a.db", 100, 0);
  std::string bytes = knobwise::testing::content(a);
  bytes.resize(bytes.size() * 3 / 4);
  std::ofstream(path("cut.db"), std::ios::binary) << bytes;
  const CommandResult result = run({"salvage", path("cut.db"), path("out.db")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 problems"));
  EXPECT_EQ(run({"check", "--db", path("out.db")}).status, 0);
  EXPECT_EQ(run({"salvage", path("cut.db"), path("out.db")}).status, 2) << "never overwritten";
  EXPECT_EQ(run({"salvage", path("cut.db")}).status, 2);
}

TEST_F(DatabaseActions, StoredCodeServesWithoutACompiler) {
  const std::string problem = "conv2d n=1 c=4 h=8 w=8 k=4 r=3 s=3 pad=1";
  const CommandResult tuned = knobwise({"tune", problem, "--device", "cpu", "--family", "direct_conv",
                                        "--max-trials", "2", "--store-code", "--db", path("a.db")},
                                       folder_);
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  setenv("KNOBWISE_CXX", "/no/such/compiler", 1);
  setenv("KNOBWISE_CACHE", path("empty cache").c_str(), 1);
  const auto provenance = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run", problem, "--device", "cpu", "--db", path("a.db"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = knobwise(arguments, folder_);
    return result.status == 0 ? json::parse(result.out) : json{{"error", result.err}};
  };
  const json trusted = provenance({"--trust", path("a.db"), "--allow", "exact"});
  const json untrusted = provenance({});
  unsetenv("KNOBWISE_CXX");
  unsetenv("KNOBWISE_CACHE");
  EXPECT_EQ(trusted.value("stored_code", false), true) << trusted.dump();
  EXPECT_EQ(trusted.value("provenance", ""), "exact");
  EXPECT_NE(untrusted.value("provenance", ""), "exact") << untrusted.dump();
}

}  // namespace
}  // namespace knobwise::test
