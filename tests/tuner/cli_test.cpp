// Requests that need no search: help, bad words, missing files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "db/store.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Cli : public testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& arguments) { return knobwise(arguments, folder_); }
  TemporaryFolder folder_;
};

std::size_t longest_line(const std::string& text) {
  std::istringstream stream(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(stream, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST_F(Cli, HelpOfEveryCommandHasAnExampleAndFitsATerminal) {
  for (const std::string command :
       {"devices", "tune", "sweep", "best", "run", "report", "simulate", "cache", "db"}) {
    const CommandResult result = run({command, "--help"});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Examples:\n  knobwise " + command));
    // An example stands on one line, to be copied.
    EXPECT_LE(longest_line(result.out.substr(0, result.out.find("Examples:"))), 80u) << result.out;
    EXPECT_EQ(run({"help", command}).out, result.out);
  }
}

TEST_F(Cli, WithoutACommandItExplainsItselfAndRefuses) {
  const CommandResult result = run({});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("Usage: knobwise COMMAND"));
}

TEST_F(Cli, AnUnknownCommandOrOptionIsAWrongRequest) {
  EXPECT_EQ(run({"tuna"}).status, 2);
  const CommandResult option = run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--max-trails", "3"});
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.err, HasSubstr("max-trails"));
}

TEST_F(Cli, ABadWordOfAProblemIsUnderlined) {
  const CommandResult result = run({"tune", "conv2d n=8 c=64 h=56 w=56 k=64 r=3 q=3", "--device", "cpu"});
  EXPECT_EQ(result.status, 2);
  const std::size_t text = result.err.find("  conv2d n=8");
  ASSERT_NE(text, std::string::npos) << result.err;
  const std::size_t line_end = result.err.find('\n', text);
  EXPECT_EQ(result.err.find('^', line_end) - line_end - 1, result.err.find("q=3", text) - text) << result.err;
}

// The lines under the message, and the column at which the underline begins.
std::pair<std::string, std::size_t> place(const std::string& err) {
  const std::size_t first = err.find('\n') + 1, second = err.find('\n', first) + 1;
  return {err.substr(first), err.find('^') - second};
}

TEST_F(Cli, ForeignTextIsShownOnOneLineWithoutItsControlCharacters) {
  const CommandResult result = run({"best", "conv1d\tn=1\nc=\x1b[31m1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("' [31m1' is not a whole number"));
  EXPECT_EQ(place(result.err).first, "  conv1d n=1 c= [31m1\n             ^^^^^^^^\n");
}

TEST_F(Cli, AnUnderlineCountsCharactersAsATerminalDoes) {
  const std::string text = place(run({"best", "conv1d n=1 c=1 w=8 k=1 s=1 | r\u00e9lu | relu"}).err).first;
  EXPECT_THAT(text, HasSubstr("^^^^\n"));
  EXPECT_THAT(text, Not(HasSubstr("^^^^^")));
}

TEST_F(Cli, ThePlaceInALongLineIsShownInTheWidthOfATerminal) {
  std::string line = "conv1d n=1 c=1 w=8 k=1 s=1";
  for (int i = 0; i < 100; ++i) line += " | relu";
  const CommandResult result = run({"best", line + " | rleu" + line.substr(26)});
  EXPECT_EQ(result.status, 2);
  const auto [text, column] = place(result.err);
  EXPECT_LE(longest_line(text), 80u) << text;
  EXPECT_EQ(text.substr(column, 4), "rleu") << text;
}

TEST_F(Cli, AnEndlessLineIsRefusedAtOnce) {
  const CommandResult result = run({"best", "conv1d n=1 " + std::string(100'000, 'x')});
  EXPECT_EQ(result.status, 2);
  EXPECT_LE(longest_line(result.err), 120u);
  EXPECT_THAT(result.err, HasSubstr("100011 characters"));
}

TEST_F(Cli, APathThatIsNoUtf8StillGivesJson) {
  const std::string database = folder_ / "\xff.db";
  const CommandResult tuned = run(
      {"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--family", "reference", "--db", database});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"best", "conv1d n=1 c=1 w=8 k=1 s=3"},
        {"run", "conv1d n=1 c=1 w=8 k=1 s=3"},
        {"db", "info"}}) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--db", database, "--json"});
    if (arguments[0] != "db") all.insert(all.end(), {"--device", "cpu"});
    const CommandResult result = run(all);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(nlohmann::json::accept(result.out)) << arguments[0];
  }
}

TEST_F(Cli, OutputThatCannotBeWrittenIsAFailure) {
  const std::string to_full = std::string("'") + KNOBWISE_EXECUTABLE + "' devices --json > /dev/full 2> '" +
                              (folder_ / "err").string() + "'";
  EXPECT_EQ(WEXITSTATUS(std::system(to_full.c_str())), 1);
  EXPECT_THAT(read_file(folder_ / "err"), HasSubstr("cannot be written"));
}

TEST_F(Cli, ASeedIsNotNegative) {
  for (const std::string command : {"tune", "run"}) {
    const CommandResult result = run(
        {command, "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db", folder_ / "t.db", "--seed", "-1"});
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("--seed"));
  }
}

TEST_F(Cli, AFamilyNamedTwiceIsSearchedOnce) {
  const CommandResult result =
      run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db", folder_ / "t.db", "--family",
           "reference", "--family", "reference", "--max-trials", "9", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  const auto once =
      nlohmann::json::parse(run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db",
                                 folder_ / "once.db", "--family", "reference", "--max-trials", "9", "--json"})
                                .out);
  EXPECT_EQ(document.at("evaluated"), once.at("evaluated"));
}

TEST_F(Cli, AReportOrAnExportReplacesNoDatabaseAndNoDevice) {
  const std::string database = folder_ / "t.db";
  ASSERT_EQ(run({"devices", "--calibrate", "--device", "cpu", "--db", database}).status, 0);
  const std::string before = read_file(database);
  std::filesystem::create_hard_link(database, folder_ / "other.html");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string output : {"t.db", "other.html", "pipe"}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"report", "-o"}, {"db", "export", "--format", "sql"}}) {
      std::vector<std::string> all = command;
      all.insert(all.end(), {folder_ / output, "--db", database});
      const CommandResult result = run(all);
      EXPECT_EQ(result.status, 2) << command[0] << output;
      EXPECT_THAT(result.err, HasSubstr("choose another place")) << command[0] << output;
    }
  }
  EXPECT_EQ(read_file(database), before);
  EXPECT_TRUE(std::filesystem::is_fifo(folder_ / "pipe"));
}

TEST_F(Cli, AFolderInPlaceOfAFileIsAWrongRequest) {
  for (const std::string name : {"folder", "folder.json", "folder.sql"})
    std::filesystem::create_directory(folder_ / name);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"sweep", folder_ / "folder", "--db", folder_ / "t.db"},
        {"simulate", "--space", folder_ / "folder", "--recorded", folder_ / "folder"},
        {"db", "import", folder_ / "folder.json", "--db", folder_ / "t.db"},
        {"db", "import", folder_ / "folder.sql", "--db", folder_ / "t.db"}}) {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments[0];
    EXPECT_THAT(result.err, ContainsRegex("folder[.a-z]*: cannot be read")) << arguments[0];
  }
}

TEST_F(Cli, ADeviceThatIsNotThereNamesThoseThatAre) {
  const CommandResult result = run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cuda:99"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("cpu"));
}

TEST_F(Cli, ReadingADatabaseThatIsNotThereSaysHowToMakeOne) {
  const std::string missing = folder_ / "missing.db";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"best", "conv1d n=1 c=1 w=8 k=1 s=3", "--db", missing},
        std::vector<std::string>{"report", "--db", missing, "-o", folder_ / "r.html"},
        std::vector<std::string>{"db", "info", "--db", missing},
        std::vector<std::string>{"run", "--all", "--db", missing}}) {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments[0];
    EXPECT_THAT(result.err, HasSubstr("knobwise tune")) << arguments[0];
  }
  EXPECT_FALSE(std::filesystem::exists(missing));
}

TEST_F(Cli, ATextFileNamedAsADatabaseIsRefusedAndKept) {
  const std::filesystem::path path = folder_ / "notes.db";
  std::ofstream(path) << "these are my notes, not a database; keep them\n";
  const CommandResult result =
      run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db", path, "--max-trials", "1"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("notes.db"));
  EXPECT_EQ(read_file(path), "these are my notes, not a database; keep them\n");
}

TEST_F(Cli, BudgetsMustBePositive) {
  for (const std::vector<std::string>& budget : {std::vector<std::string>{"--max-trials", "0"},
                                                 {"--max-trials", "-3"},
                                                 {"--max-time", "0"},
                                                 {"--max-time", "nan"},
                                                 {"--max-time", "inf"},
                                                 {"--max-time", "1e300"},
                                                 {"--jobs", "0"},
                                                 {"--jobs", "5000"}}) {
    const CommandResult result = run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db",
                                      folder_ / "t.db", budget[0], budget[1]});
    EXPECT_EQ(result.status, 2) << budget[0] << " " << budget[1];
    EXPECT_THAT(result.err, HasSubstr(budget[0]));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "t.db"));
}

TEST_F(Cli, AnUnknownFamilyOrStrategyNamesTheKnownOnes) {
  const CommandResult family = run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db",
                                    folder_ / "t.db", "--family", "magic"});
  EXPECT_EQ(family.status, 2);
  EXPECT_THAT(family.err, HasSubstr("direct_conv"));
  const CommandResult strategy = run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu", "--db",
                                      folder_ / "t.db", "--strategy", "magic"});
  EXPECT_EQ(strategy.status, 2);
  EXPECT_THAT(strategy.err, HasSubstr("exhaustive"));
}

TEST_F(Cli, DevicesListsTheProcessor) {
  const CommandResult result = run({"devices", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto document = nlohmann::json::parse(result.out);
  EXPECT_EQ(document.at("devices").at(0).at("backend"), "cpu");
  EXPECT_GT(document.at("devices").at(0).at("multiprocessors"), 0);
}

TEST_F(Cli, CalibrationIsMeasuredStoredAndFoundAgain) {
  const std::string database = folder_ / "c.db";
  const CommandResult measured =
      run({"devices", "--calibrate", "--device", "cpu", "--db", database, "--json"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  const auto ceilings = nlohmann::json::parse(measured.out).at("devices").at(0).at("ceilings");
  // Any processor of this century copies at 0.5 GB/s and computes at 1 GFLOP/s, and none at 10,000 times
  // that.
  for (const auto& [resource, low] : {std::pair("memory", 0.5e9), std::pair("fp32", 1e9)}) {
    EXPECT_TRUE(ceilings.at(resource).at("measured")) << resource;
    EXPECT_GT(ceilings.at(resource).at("per_second"), low) << resource;
    EXPECT_LT(ceilings.at(resource).at("per_second"), 1e4 * low) << resource;
  }
  const CommandResult again = run({"devices", "--device", "cpu", "--db", database, "--json"});
  EXPECT_EQ(nlohmann::json::parse(again.out).at("devices").at(0).at("ceilings"), ceilings);
  const Store store = Store::open(database, Store::Mode::read_only);
  ASSERT_EQ(store.devices().size(), 1u);
  const auto extra = nlohmann::json::parse(store.devices().front().record.extra);
  EXPECT_EQ(extra.at("ceilings").at("fp32"), ceilings.at("fp32").at("per_second"));
  EXPECT_TRUE(extra.contains("vector_bytes")) << "the other facts stay";
}

TEST_F(Cli, AnUnknownDeviceOfAListIsNamed) {
  const CommandResult result =
      run({"tune", "conv1d n=1 c=1 w=8 k=1 s=3", "--device", "cpu,moon", "--db", folder_ / "t.db"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("'moon'"));
}

TEST_F(Cli, AnUnknownActionOfTheCacheNamesTheKnownOnes) {
  const CommandResult result = run({"cache", "burn"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("info|clear"));
}

TEST_F(Cli, ABadLineOfASweepIsReportedWithItsNumber) {
  std::ofstream(folder_ / "sweep.txt")
      << "# two problems\n\nconv1d n=1 c=1 w=8 k=1 s=3  # the first\r\nconv1d n=1 c=1 w=8 k=1 s=9\n";
  const CommandResult result =
      run({"sweep", folder_ / "sweep.txt", "--device", "cpu", "--db", folder_ / "s.db"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("sweep.txt:4:"));
  EXPECT_THAT(result.err, Not(HasSubstr("sweep.txt:3:")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "s.db")) << "nothing may be tuned";
}

TEST_F(Cli, AnEmptyOrMissingSweepFileIsAWrongRequest) {
  EXPECT_EQ(run({"sweep", folder_ / "none.txt"}).status, 2);
  std::ofstream(folder_ / "empty.txt") << "# nothing\n";
  EXPECT_EQ(run({"sweep", folder_ / "empty.txt", "--db", folder_ / "s.db"}).status, 2);
}

}  // namespace
}  // namespace knobwise::test
