// The table of the best stored configurations against the vendor library's, on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "db/identifiers.h"
#include "db/store.h"
#include "kernels/device.h"
#include "reports/ceilings.h"
#include "tests/tuner/command.h"

namespace knobwise::test {
namespace {

using testing::HasSubstr;

constexpr const char* kProblem = "conv2d n=1 c=8 h=16 w=16 k=16 r=3 s=3 bias | relu";

class ReferenceBench : public testing::Test {
 protected:
  void SetUp() override { write("problems.txt", std::string("# one\n") + kProblem + "\n"); }

  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  CommandResult bench(const std::string& database, const std::string& problems = "problems.txt") {
    return finish(
        start_program(KNOBWISE_REFERENCE_BENCH, {folder_ / database, "cpu", folder_ / problems}, folder_),
        folder_);
  }

  void tune(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"tune", kProblem, "--device", "cpu", "--db", folder_ / "a.db"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = knobwise(arguments, folder_);
    ASSERT_EQ(result.status, 0) << result.err;
  }

  // The words of the table's line that begins with these two.
  static std::vector<std::string> row(const std::string& out, const std::string& label,
                                      const std::string& accuracy) {
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
      if (all.size() < 2 || all[0] != label || all[1] != accuracy) continue;
      EXPECT_LE(line.size(), 80u) << line;
      return all;
    }
    return {};
  }

  TemporaryFolder folder_;
};

TEST_F(ReferenceBench, ComparesTheBestWithTheVendorsBest) {
  tune({"--max-trials", "2"});
  {
    Store store = Store::open(folder_ / "a.db", Store::Mode::read_write);
    const Stored<DeviceRecord> device = store.devices().front();
    store.update_device_extra(
        device.id, with_ceilings(device.record.extra, {{"memory", 1e10}, {"fp32", 1e10}}, utc_now()));
  }
  const CommandResult result = bench("a.db");
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* accuracy : {"allclose", "tf32"}) {
    const std::vector<std::string> cells = row(result.out, "P1", accuracy);
    ASSERT_EQ(cells.size(), 9u) << result.out;
    const double ours = std::stod(cells[2]), vendor = std::stod(cells[3]);
    EXPECT_GT(ours, 0);
    EXPECT_GT(vendor, 0);
    EXPECT_NEAR(std::stod(cells[4]), vendor / ours, 0.01 * vendor / ours + 0.01);
    // 16 * 14 * 14 * 72 * 2 operations at the ceiling's 10^10 a second; the table shows a whole percentage.
    EXPECT_NEAR(std::stod(cells[5]) / 100, 45.1584 / ours, 0.01 * 45.1584 / ours + 0.01);
    EXPECT_EQ(cells[6], "fp32");
    EXPECT_LE(std::stod(cells[7]), 1e-4);
    EXPECT_LE(std::stod(cells[8]), 1e-4);
  }
  EXPECT_THAT(result.out, HasSubstr("onednn format="));
  EXPECT_THAT(result.err, HasSubstr("P1 half: no current result is stored"));
}

TEST_F(ReferenceBench, LeavesAGapWhereOneSideIsNotStored) {
  tune({"--max-trials", "1", "--family", "direct_conv"});
  const CommandResult result = bench("a.db");
  ASSERT_EQ(result.status, 0) << result.err;
  const std::vector<std::string> cells = row(result.out, "P1", "allclose");
  ASSERT_EQ(cells.size(), 9u) << result.out;
  EXPECT_GT(std::stod(cells[2]), 0);
  EXPECT_EQ(cells[3], "-");
  EXPECT_EQ(cells[4], "-");
}

// The errors on record are not trusted.
TEST_F(ReferenceBench, SaysWhenTheOutputMissesTheRequirement) {
  if (!open_device("cpu")->info().bf16) GTEST_SKIP() << "this processor multiplies no bf16";
  tune({"--max-trials", "1", "--family", "direct_conv"});
  {
    Store store = Store::open(folder_ / "a.db", Store::Mode::read_write);
    TrialRecord trial = store.trials(1, 1).front();
    const std::size_t precision = trial.configuration.find("fp32");
    ASSERT_NE(precision, std::string::npos);
    trial.configuration.replace(precision, 4, "bf16");
    trial.timing->time_us = trial.timing->min_us = trial.timing->mean_us = 1e-3;
    trial.session_order = store.next_session_order(trial.session);
    store.insert_trial(trial);
  }
  const CommandResult result = bench("a.db");
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("NOT MET"));
  EXPECT_THAT(result.out, HasSubstr("precision=bf16"));
}

TEST_F(ReferenceBench, SaysWhatIsMissing) {
  const CommandResult no_file = bench("none.db");
  EXPECT_EQ(no_file.status, 2);
  EXPECT_THAT(no_file.err, HasSubstr("none.db"));

  { Store::open(folder_ / "empty.db", Store::Mode::read_write); }
  const CommandResult empty = bench("empty.db");
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.err, HasSubstr("knobwise sweep"));

  write("bad.txt", std::string(kProblem) + "\nconv2d n=0\n");
  const CommandResult bad = bench("empty.db", "bad.txt");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.txt:2:"));

  const CommandResult missing = bench("empty.db", "missing.txt");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("missing.txt"));
}

}  // namespace
}  // namespace knobwise::test
