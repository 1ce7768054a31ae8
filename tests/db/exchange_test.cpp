// Export, then import: everything that a format holds comes back, and what it does not hold is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "db/exchange.h"
#include "search_spaces/user_error.h"
#include "tests/db/dump.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExchangeTest : public FolderTest {
 protected:
  /// Trials with everything that text can get wrong.
  void SetUp() override {
    FolderTest::SetUp();
    Store store = Store::open(file("in.db"), Store::Mode::read_write);
    Ids ids = intern_all(store);
    TrialRecord full = trial(ids, 0, 1.0 / 3);
    full.configuration =
        R"({"a":1e-7,"b":true,"c":"say \"hi\", twice\n","d":0.5,"e":10000000000000000000000.0})";
    full.timing->samples = {0.1f, 3e7f, 1e-30f, 16777217.f};
    full.resources = {.registers = 64, .spill_bytes = 0, .occupancy = 0.1 + 0.2, .binary_bytes = 12345};
    full.compile_seconds = 0.1, full.temperature_c = -3.25, full.clock_khz = 1'980'000;
    full.errors[0].rms = std::numeric_limits<double>::quiet_NaN();
    full.extra = R"({"note":"ä, \"ö\""})";
    store.insert_trial(full);
    store.insert_trial(failed_trial(ids, 1, TrialStatus::crashed, "line 1\r\nline \"2\", and more\n"));
    store.insert_trial(failed_trial(ids, 2, TrialStatus::invalid, ""));
    TrialRecord unmeasured = trial(ids, 3, 7);
    unmeasured.errors.clear();
    unmeasured.timing->samples.clear();
    unmeasured.id = store.insert_trial(unmeasured).id;
    store.update_timing(unmeasured.id, timing(8));
    ids.problem = store.intern_problem(problem("conv2d n=1 c=1 h=9 w=9 k=1 r=3 s=3 | relu"));
    ids.session = store.begin_session(session(ids));
    store.insert_trial(trial(ids, 0, 11));
    store.finish_session(ids.session, SessionState::finished);
  }

  std::string exported(ExchangeFormat format, const std::optional<std::string>& problem = std::nullopt,
                       std::vector<std::string>* left_out = nullptr) {
    std::ostringstream out;
    const Store store = Store::open(file("in.db"), Store::Mode::read_only);
    const ExportResult result = export_database(store, {.format = format, .problem = problem}, out);
    if (left_out) *left_out = result.left_out;
    return out.str();
  }

  MergeResult read_back(ExchangeFormat format, const std::string& text, const std::string& name = "out.db") {
    std::istringstream in(text);
    return import_database(file(name), format, in, "given.txt");
  }

  std::string refusal(ExchangeFormat format, const std::string& text) {
    Store::open(file("out.db"), Store::Mode::read_write);
    const std::string before = dump(file("out.db"));
    try {
      read_back(format, text);
      return "";
    } catch (const UserError& error) {
      EXPECT_EQ(dump(file("out.db")), before) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("given.txt"));
      return error.what();
    }
  }
};

class FormatTest : public ExchangeTest, public ::testing::WithParamInterface<ExchangeFormat> {};

TEST_P(FormatTest, ExportThenImportLosesNothing) {
  const std::string text = exported(GetParam());
  EXPECT_EQ(read_back(GetParam(), text).trials, 5);
  EXPECT_EQ(dump(file("out.db")), dump(file("in.db")));
}

TEST_P(FormatTest, ImportingAgainChangesNothing) {
  const std::string text = exported(GetParam());
  read_back(GetParam(), text);
  const MergeResult again = read_back(GetParam(), text);
  EXPECT_EQ(again.trials + again.sessions + again.renewed, 0);
  EXPECT_EQ(dump(file("out.db")), dump(file("in.db")));
}

TEST_P(FormatTest, SecondMeasurementsOfTheSameWorkSurvive) {
  {
    Store other = Store::open(file("other.db"), Store::Mode::read_write);
    other.insert_trial(trial(intern_all(other), 3, 9));
    Store::open(file("in.db"), Store::Mode::read_write).merge(file("other.db"));
  }
  EXPECT_EQ(read_back(GetParam(), exported(GetParam())).trials, 6);
  EXPECT_EQ(dump(file("out.db")), dump(file("in.db")));
}

TEST_P(FormatTest, TextCutAnywhereIsRefusedAndChangesNothing) {
  const std::string text = exported(GetParam());
  const std::size_t step = text.size() / 40;
  for (std::size_t size = 0; size + 2 < text.size(); size += step) {
    // A cut between two lines of CSV is a shorter file of the same format.
    if (GetParam() == ExchangeFormat::csv && size > 0 && text[size - 1] == '\n') continue;
    EXPECT_NE(refusal(GetParam(), text.substr(0, size)), "") << size;
  }
}

TEST_P(FormatTest, OtherTextIsRefused) {
  for (const char* text :
       {"", "hello\n", "{}", "[1, 2]", "\"", "a,b\n1,2\n", "{\"results\": 7}", "SELECT 1; SELECT;"})
    EXPECT_NE(refusal(GetParam(), text), "") << text;
}

std::string name_of(const ::testing::TestParamInfo<ExchangeFormat>& format) {
  return format.param == ExchangeFormat::t4 ? "t4" : format.param == ExchangeFormat::csv ? "csv" : "sql";
}

INSTANTIATE_TEST_SUITE_P(All, FormatTest,
                         ::testing::Values(ExchangeFormat::t4, ExchangeFormat::csv, ExchangeFormat::sql),
                         name_of);

TEST_F(ExchangeTest, WhatHasNoPlaceIsSaid) {
  {
    Store store = Store::open(file("in.db"), Store::Mode::read_write);
    const Ids ids = intern_all(store);  // a session without trials
    store.put_baseline({.device = ids.device,
                        .environment = ids.environment,
                        .problem = ids.problem,
                        .name = "lib",
                        .timing = timing(9),
                        .errors = errors(),
                        .started = utc_now()});
    store.put_code(1, "machine code");
  }
  for (const ExchangeFormat format : {ExchangeFormat::t4, ExchangeFormat::csv}) {
    std::vector<std::string> left_out;
    exported(format, std::nullopt, &left_out);
    EXPECT_THAT(left_out,
                ElementsAre("1 baselines", "1 sessions without trials", "the machine code of 1 trials"));
  }
  std::vector<std::string> left_out;
  read_back(ExchangeFormat::sql, exported(ExchangeFormat::sql, std::nullopt, &left_out));
  EXPECT_THAT(left_out, IsEmpty());
  EXPECT_EQ(dump(file("out.db")), dump(file("in.db")));
  EXPECT_EQ(dump_codes(file("out.db")), dump_codes(file("in.db")));
}

TEST_F(ExchangeTest, OneProblemIsExportedAlone) {
  for (const ExchangeFormat format : {ExchangeFormat::t4, ExchangeFormat::csv}) {
    const std::string name = format == ExchangeFormat::t4 ? "t4.db" : "csv.db";
    EXPECT_EQ(read_back(format, exported(format, "conv2d n=1 c=1 h=9 w=9 k=1 r=3 s=3 | relu"), name).trials,
              1);
  }
  EXPECT_THROW(exported(ExchangeFormat::csv, "conv no such"), UserError);
  EXPECT_THROW(exported(ExchangeFormat::sql, "conv no such"), UserError);
}

TEST_F(ExchangeTest, T4IsValidAgainstThePublishedSchema) {
  const json document = json::parse(exported(ExchangeFormat::t4));
  EXPECT_EQ(document.at("schema_version"), "1.0.0");
  ASSERT_EQ(document.at("results").size(), 5u);
  const std::set<std::string> words = {"timeout",     "compile",     "runtime",
                                       "correctness", "constraints", "correct"};
  for (const json& result : document.at("results")) {
    for (const char* required : {"configuration", "times", "invalidity", "correctness"})
      EXPECT_TRUE(result.contains(required)) << required;
    EXPECT_TRUE(result.at("timestamp").is_string());
    EXPECT_TRUE(result.at("configuration").is_object());
    EXPECT_TRUE(result.at("objectives").is_array());
    for (const char* time : {"compilation_time", "framework", "search_algorithm", "validation"})
      EXPECT_TRUE(result.at("times").at(time).is_number()) << time;
    EXPECT_TRUE(result.at("times").at("runtimes").is_array());
    EXPECT_TRUE(words.contains(result.at("invalidity")));
    EXPECT_TRUE(result.at("correctness").is_number());
    for (const json& measurement : result.at("measurements")) {
      EXPECT_TRUE(measurement.at("name").is_string());
      EXPECT_TRUE(measurement.at("value").is_number());
      EXPECT_TRUE(measurement.at("unit").is_string());
    }
  }
  const json& first = document.at("results")[0];
  EXPECT_EQ(first.at("invalidity"), "correct");
  EXPECT_DOUBLE_EQ(first.at("measurements")[0].at("value"), 1.0 / 3000);
  EXPECT_EQ(document.at("results")[1].at("invalidity"), "runtime");
  EXPECT_EQ(document.at("results")[2].at("invalidity"), "constraints");
}

TEST_F(ExchangeTest, ABadTrialIsNamedByItsPlace) {
  std::string text = exported(ExchangeFormat::csv);
  const std::size_t status = text.find(",crashed,");
  text.replace(status, 9, ",crushed,");
  EXPECT_THAT(refusal(ExchangeFormat::csv, text),
              ::testing::AllOf(HasSubstr("given.txt:3:"), HasSubstr("column status")));

  json document = json::parse(exported(ExchangeFormat::t4));
  document["results"][3]["knobwise"]["time_us"] = 0;
  EXPECT_THAT(refusal(ExchangeFormat::t4, document.dump()), HasSubstr("result 4"));
  document["results"][3]["knobwise"].erase("time_us");
  EXPECT_THAT(refusal(ExchangeFormat::t4, document.dump()), HasSubstr("result 4"));
  document["results"][2]["knobwise"]["device"] = 99;
  EXPECT_THAT(refusal(ExchangeFormat::t4, document.dump()), HasSubstr("result 3"));
}

TEST_F(ExchangeTest, TextThatIsNoJsonIsRefusedInOurWords) {
  EXPECT_THAT(
      refusal(ExchangeFormat::t4, "{\"results\": oops"),
      ::testing::AllOf(HasSubstr("is not JSON, from byte 13 on"), ::testing::Not(HasSubstr("exception"))));
  EXPECT_THAT(refusal(ExchangeFormat::t4, "{\"results\": 1e999}"),
              ::testing::AllOf(HasSubstr("too large"), ::testing::Not(HasSubstr("exception"))));
}

TEST_F(ExchangeTest, DeeplyNestedJsonIsRefusedAndDoesNotEndTheProcess) {
  constexpr std::size_t kDeep = 1'000'000;
  const std::string deep = std::string(kDeep, '[') + std::string(kDeep, ']');
  const std::string text = exported(ExchangeFormat::t4);
  const auto in_place_of = [&](const std::string& word) {
    std::string changed = text;
    return changed.replace(changed.find(word), word.size(), word + deep + ",\"x\":");
  };
  EXPECT_THAT(refusal(ExchangeFormat::t4, deep), HasSubstr("in each other"));
  for (const char* place : {"\"errors\":", "\"configuration\":", "\"metadata\": "})
    EXPECT_THAT(refusal(ExchangeFormat::t4, in_place_of(place)), HasSubstr("in each other")) << place;
}

TEST_F(ExchangeTest, BracketsInTextAreNoNesting) {
  {
    Store store = Store::open(file("in.db"), Store::Mode::read_write);
    const Ids ids = intern_all(store);
    store.insert_trial(failed_trial(ids, 7, TrialStatus::crashed, "\"" + std::string(500, '[') + "\\"));
  }
  EXPECT_EQ(read_back(ExchangeFormat::t4, exported(ExchangeFormat::t4)).trials, 6);
}

TEST_F(ExchangeTest, FractionsAndHugeNumbersAreNoIntegers) {
  const json whole = json::parse(exported(ExchangeFormat::t4));
  for (const json& wrong :
       {json(64.5), json(1e300), json(std::numeric_limits<std::uint64_t>::max()), json("64")}) {
    json document = whole;
    document["results"][0]["knobwise"]["registers"] = wrong;
    EXPECT_THAT(refusal(ExchangeFormat::t4, document.dump()),
                ::testing::AllOf(HasSubstr("result 1"), HasSubstr("registers")))
        << wrong;
  }
}

TEST_P(FormatTest, ARefusedImportMakesNoDatabase) {
  const std::string text = exported(GetParam());
  for (const std::string& wrong : {std::string(), std::string("hello\n"), text.substr(0, text.size() / 2)}) {
    EXPECT_THROW(read_back(GetParam(), wrong, "new.db"), UserError);
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("new.db")));
  }
  EXPECT_EQ(read_back(GetParam(), text, "new.db").trials, 5);
}

TEST_F(ExchangeTest, ARecordingOfAnotherTunerIsForSimulation) {
  EXPECT_THAT(refusal(ExchangeFormat::t4, R"({"results": [{"configuration": {}}], "metadata": {}})"),
              HasSubstr("knobwise simulate"));
}

TEST_F(ExchangeTest, SqlTextCannotReachBeyondItsDatabase) {
  const std::string dumped = exported(ExchangeFormat::sql);
  const std::string victim = file("victim.db").string();
  for (const std::string& statement :
       {"ATTACH '" + victim + "' AS v;", "SELECT load_extension('" + victim + "');",
        std::string("PRAGMA writable_schema = ON;"), "VACUUM INTO '" + victim + "';",
        std::string("DROP TABLE trials;"), std::string("CREATE VIRTUAL TABLE f USING fts5(x);")}) {
    EXPECT_NE(refusal(ExchangeFormat::sql, dumped + statement), "") << statement;
    EXPECT_FALSE(fs::exists(victim)) << statement;
  }
}

TEST_F(ExchangeTest, SqlTextMakesADatabaseByItself) {
  SQLite::Database(file("new.db").string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec(exported(ExchangeFormat::sql));
  EXPECT_EQ(dump(file("new.db")), dump(file("in.db")));
  EXPECT_EQ(Store::open(file("new.db"), Store::Mode::read_write).check(), std::vector<std::string>());
}

TEST_F(ExchangeTest, AnOlderSchemaIsExportedAndImported) {
  const Store old = Store::open("tests/db/schemas/schema_1.sqlite", Store::Mode::read_only);
  for (const ExchangeFormat format : {ExchangeFormat::t4, ExchangeFormat::csv, ExchangeFormat::sql}) {
    std::ostringstream out;
    export_database(old, {.format = format}, out);
    const std::string name = "old" + std::to_string(static_cast<int>(format)) + ".db";
    EXPECT_EQ(read_back(format, out.str(), name).trials, 9);
    EXPECT_EQ(column(file(name), "SELECT time_us FROM best"), "5000.5\n98.0\n");
  }
}

TEST(ExchangeFormats, AreToldByTheName) {
  EXPECT_EQ(exchange_format_of("a/b.json"), ExchangeFormat::t4);
  EXPECT_EQ(exchange_format_of("b.csv"), ExchangeFormat::csv);
  EXPECT_EQ(exchange_format_of("b.sql"), ExchangeFormat::sql);
  EXPECT_EQ(exchange_format_of("b.txt"), std::nullopt);
  EXPECT_EQ(parse_exchange_format("csv"), ExchangeFormat::csv);
  EXPECT_THROW(parse_exchange_format("xml"), UserError);
}

}  // namespace
}  // namespace knobwise::testing
