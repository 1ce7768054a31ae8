// The report as a file: complete, self-contained, and faithful to the databases.
#include "reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "db/store.h"
#include "search_spaces/user_error.h"
#include "tests/reports/databases.h"
#include "tests/reports/unpack.h"

namespace knobwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using report_tests::count_trials;
using testing::HasSubstr;
using testing::Not;

// The folder is removed with its contents at the end of the test.
class ReportTest : public testing::Test {
 protected:
  ReportTest() { fs::create_directories(folder_); }
  ~ReportTest() override { fs::remove_all(folder_); }

  fs::path at(const std::string& name) const { return folder_ / name; }

  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  std::string page(const std::vector<fs::path>& databases, const ReportOptions& options = {}) const {
    write_report(databases, options, at("report.html"));
    return read(at("report.html"));
  }

  json data(const std::vector<fs::path>& databases, const ReportOptions& options = {}) const {
    return unpack(page(databases, options));
  }

  // What the page does with its data.
  static json unpack(const std::string& page) {
    const std::string opening = "id=\"report-data\">";
    const std::size_t first = page.find(opening) + opening.size();
    return report_tests::gunzip_json(decode(page.substr(first, page.find('<', first) - first)));
  }

 private:
  static std::string decode(const std::string& base64) {
    const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0;
    int held = 0;
    for (const char c : base64) {
      if (c == '=') break;
      const std::size_t value = alphabet.find(c);
      EXPECT_NE(value, std::string::npos) << "not base64: " << c;
      bits = bits << 6 | static_cast<unsigned>(value);
      held += 6;
      if (held < 8) continue;
      held -= 8;
      bytes += static_cast<char>(bits >> held & 255);
    }
    return bytes;
  }

  fs::path folder_ = fs::temp_directory_path() / ("knobwise_report_test_" + std::to_string(getpid()));
};

// A page is too long for a matcher's message.
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ReportTest, RefersToNothingOutsideItself) {
  report_tests::make_sweep(at("a.db"), 40);
  const std::string text = page({at("a.db")});
  EXPECT_FALSE(std::regex_search(text, std::regex(R"(\bsrc\s*=\s*["']?(https?:)?//)")));
  EXPECT_FALSE(std::regex_search(text, std::regex(R"(\bhref\s*=\s*["']?(https?:)?//)")));
  EXPECT_FALSE(contains(text, "@import"));
  EXPECT_FALSE(contains(text, "sourceMappingURL"));
  EXPECT_FALSE(std::regex_search(text, std::regex(R"(url\(\s*["']?(https?:)?//)")));
  EXPECT_TRUE(contains(text, "default-src 'none'"));
  // Addresses that are only names: XML namespaces and the licences of the bundled libraries.
  const std::regex address(R"(https?://[A-Za-z0-9.-]+\.[a-z]+)");
  for (std::sregex_iterator match(text.begin(), text.end(), address), end; match != end; ++match) {
    EXPECT_THAT(match->str(),
                testing::AnyOf("http://www.w3.org", "http://www.apache.org", "https://github.com"))
        << text.substr(match->position(), 120);
  }
}

TEST_F(ReportTest, HoldsEveryTrialAndTheStoresBest) {
  report_tests::make_sweep(at("a.db"), 80);
  const json report = data({at("a.db")});
  const Store store = Store::open(at("a.db"), Store::Mode::read_only);
  EXPECT_EQ(count_trials(report), static_cast<std::size_t>(store.counts().trials));
  EXPECT_EQ(report["sessions"].size(), static_cast<std::size_t>(store.counts().sessions));
  EXPECT_EQ(report["baselines"].size(), static_cast<std::size_t>(store.counts().baselines));
  ASSERT_EQ(report["groups"].size(), 6u);
  for (const json& group : report["groups"]) {
    const std::string line = report["problems"][group["problem"].get<int>()]["line"];
    std::int64_t device = 0;
    for (const auto& [id, record] : store.devices()) {
      if (record.name == report["devices"][group["device"].get<int>()]["name"]) device = id;
    }
    const BestAnswer best = store.best(*store.find_problem(line), device, allclose_limits());
    ASSERT_TRUE(best.trial);
    const json& columns = group["columns"];
    double fastest = 1e300;
    for (std::size_t i = 0; i < group["count"]; ++i) {
      if (columns["time"][i].is_number() && columns["frac_outside"][i] == 0)
        fastest = std::min(fastest, columns["time"][i].get<double>());
    }
    EXPECT_NEAR(fastest / best.trial->timing->time_us, 1, 1e-5) << line;
  }
}

TEST_F(ReportTest, EveryColumnHasAValuePerTrial) {
  report_tests::make_sweep(at("a.db"), 40);
  for (const json& group : data({at("a.db")})["groups"]) {
    for (const auto& [name, column] : group["columns"].items())
      EXPECT_EQ(column.size(), group["count"].get<std::size_t>()) << name;
    EXPECT_EQ(group["columns"].contains("waves"), group["columns"].contains("occupancy"));
    for (const json& knob : group["knobs"]) {
      ASSERT_EQ(knob["value_of"].size(), group["count"].get<std::size_t>());
      for (const json& value : knob["value_of"])
        EXPECT_LT(value.get<int>(), static_cast<int>(knob["values"].size()));
    }
  }
}

TEST_F(ReportTest, EmptyFailedAndSingleTrialsGiveAPage) {
  report_tests::make_empty(at("empty.db"));
  EXPECT_TRUE(data({at("empty.db")})["groups"].empty());

  report_tests::make_only_failures(at("failed.db"));
  const json failed = data({at("failed.db")});
  EXPECT_EQ(count_trials(failed), 12u);
  EXPECT_FALSE(failed["groups"][0]["columns"].contains("time"));
  EXPECT_TRUE(failed["groups"][0]["finalists"].empty());

  report_tests::make_one_trial(at("one.db"));
  const json one = data({at("one.db")});
  EXPECT_EQ(one["groups"][0]["columns"]["time"], json::array({1234.5}));
  EXPECT_EQ(one["groups"][0]["finalists"][0]["us"].size(), 30u);
  EXPECT_TRUE(one["groups"][0]["importance"]["features"].empty());
}

TEST_F(ReportTest, NamesNeverBecomeMarkup) {
  report_tests::make_hostile(at("a.db"));
  ReportOptions options;
  options.title = "</title><script>window.injected = 5</script>";
  const std::string text = page({at("a.db")}, options);
  EXPECT_FALSE(contains(text, "<script>window"));
  EXPECT_TRUE(contains(text, "&lt;/title&gt;&lt;script&gt;"));
  const json report = unpack(text);
  EXPECT_EQ(report["title"], options.title);
  EXPECT_EQ(report["devices"][0]["name"], "<script>window.injected = 1</script> 🚀 & \"Co\"");
}

TEST_F(ReportTest, ADefaultBelongsToTheSourceItWasMeasuredWith) {
  report_tests::make_changed_source(at("a.db"));
  const json report = data({at("a.db")});
  ASSERT_EQ(report["baselines"].size(), 2u);
  for (const json& baseline : report["baselines"]) {
    if (baseline["name"] == "cudnn") {
      EXPECT_TRUE(baseline["family"].is_null());
    } else {
      EXPECT_EQ(report["families"][baseline["family"].get<int>()]["source_hash"], "0011223344");
    }
  }
}

TEST_F(ReportTest, TheFirstOfSeveralDatabasesCounts) {
  report_tests::make_sweep(at("a.db"), 40);
  fs::copy(at("a.db"), at("b.db"));
  const json once = data({at("a.db")});
  const json twice = data({at("a.db"), at("b.db")});
  EXPECT_EQ(count_trials(twice), count_trials(once));
  EXPECT_EQ(twice["sessions"].size(), once["sessions"].size());
  EXPECT_EQ(twice["groups"], once["groups"]);

  report_tests::make_one_trial(at("c.db"));
  EXPECT_EQ(count_trials(data({at("a.db"), at("c.db")})), count_trials(once) + 1);
}

TEST_F(ReportTest, FiltersRestrict) {
  report_tests::make_sweep(at("a.db"), 40);
  ReportOptions options;
  options.device = "h200";
  EXPECT_EQ(data({at("a.db")}, options)["groups"].size(), 3u);
  options.problem = "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias";
  const json one = data({at("a.db")}, options);
  ASSERT_EQ(one["groups"].size(), 1u);
  for (const json& session : one["sessions"]) EXPECT_EQ(session["problem"], one["groups"][0]["problem"]);
  const std::size_t all = count_trials(one);
  options.since = "2026-05-29";  // the older source was tuned the day before
  EXPECT_LT(count_trials(data({at("a.db")}, options)), all);
  options.since = "2100-01-01";
  EXPECT_EQ(count_trials(data({at("a.db")}, options)), 0u);
}

TEST_F(ReportTest, WrongFiltersSayWhatIsThere) {
  report_tests::make_sweep(at("a.db"), 8);
  const auto message = [&](const ReportOptions& options) -> std::string {
    try {
      write_report({at("a.db")}, options, at("report.html"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.device = "mi300"}), testing::AllOf(HasSubstr("mi300"), HasSubstr("NVIDIA H200")));
  EXPECT_THAT(message({.problem = "conv2d n=1"}),
              testing::AllOf(HasSubstr("conv2d n=1"), HasSubstr("conv1d n=16")));
  for (const char* since : {"yesterday", "2026-02-30", "2025-02-29", "2026-00-10", "2026-13-01", "2026-01-00",
                            "2026-01-31T24:00", "2026-01-31T12:60", "2026-01-31T12:00:60Z"})
    EXPECT_THAT(message({.since = since}), testing::AllOf(HasSubstr(since), HasSubstr("2026-01-31")));
  EXPECT_EQ(message({.since = "2024-02-29T23:59:59.999Z"}), "");
  fs::remove(at("report.html"));
  EXPECT_FALSE(fs::exists(at("report.html")));
}

TEST_F(ReportTest, AFailedWriteLeavesNothingBehind) {
  report_tests::make_one_trial(at("a.db"));
  fs::create_directory(at("taken"));
  std::ofstream(at("taken") / "file") << "x";
  EXPECT_THROW(write_report({at("a.db")}, {}, at("taken")), UserError);
  EXPECT_THROW(write_report({at("a.db")}, {}, at("missing") / "report.html"), UserError);
  EXPECT_THROW(write_report({at("missing.db")}, {}, at("report.html")), UserError);
  for (const auto& entry : fs::directory_iterator(at("")))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".part")));
}

}  // namespace
}  // namespace knobwise
