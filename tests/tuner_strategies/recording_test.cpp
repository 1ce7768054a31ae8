#include "tuner/simulation/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "search_spaces/user_error.h"
#include "tests/tuner_strategies/spaces.h"

namespace knobwise {
namespace {

using testing::HasSubstr;

class RecordingFile : public testing::Test {
 protected:
  RecordingFile() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() / fmt::format("knobwise_{}.json", info->name());
  }
  ~RecordingFile() override { std::filesystem::remove(path_); }

  void write(const std::string& text) { std::ofstream(path_) << text; }
  void write_gzip(const std::string& text) {
    gzFile file = gzopen(path_.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
  }
  std::string error() {
    try {
      load_recording(path_, space_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
  BoundSpace space_ = test::make_space({"[1, 2, 4]", "[0, 1]"}, "k0 < 4 or k1 == 0");
};

std::string result(int k0, int k1, const std::string& value, const std::string& invalidity = "correct") {
  return fmt::format(
      R"({{"configuration": {{"k1": {}, "k0": {}}}, "times": {{"runtimes": [1, 2]}}, "invalidity": "{}",
          "measurements": [{{"name": "energy", "value": 77}}, {{"name": "time", "value": {}}}],
          "objectives": ["time"]}})",
      k1, k0, invalidity, value);
}

std::string document(const std::vector<std::string>& results) {
  return fmt::format(R"({{"results": [{}]}})", fmt::join(results, ","));
}

TEST_F(RecordingFile, GivesTheObjectiveOfEachConfiguration) {
  write(document({result(1, 0, "3.5"), result(2, 1, "1.25")}));
  const Recording recording = load_recording(path_, space_);
  ASSERT_EQ(recording.times.size(), 5u);
  EXPECT_EQ(recording.times[*space_.index_of(Positions{0, 0})], 3.5);
  EXPECT_EQ(recording.times[*space_.index_of(Positions{1, 1})], 1.25);
  EXPECT_EQ(recording.unrecorded, 3u);
}

TEST_F(RecordingFile, ReadsCompressedFiles) {
  write_gzip(document({result(1, 0, "3.5")}));
  EXPECT_EQ(load_recording(path_, space_).times[*space_.index_of(Positions{0, 0})], 3.5);
}

TEST_F(RecordingFile, TakesFailuresAsFailuresAndNeverAsTimes) {
  write(document({result(1, 0, "3.5"), result(1, 1, "\"CompilationFailedConfig\"", "compile"),
                  result(2, 0, "0.001", "runtime"), result(2, 1, "0"), result(4, 0, "-1")}));
  const Recording recording = load_recording(path_, space_);
  EXPECT_EQ(recording.failures, 4u);
  EXPECT_EQ(std::count(recording.times.begin(), recording.times.end(), INFINITY), 4);
}

TEST_F(RecordingFile, LeavesOutWhatIsNotInTheSpace) {
  write(document({result(1, 0, "3.5"), result(4, 1, "0.5"), result(3, 1, "0.5")}));
  EXPECT_EQ(load_recording(path_, space_).foreign, 2u);
}

TEST_F(RecordingFile, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(error(), HasSubstr("cannot be read"));
  write("{");
  EXPECT_THAT(error(), HasSubstr("is not JSON"));
  write("{\"results\": " + std::string(1'000'000, '['));
  EXPECT_THAT(error(), HasSubstr("in each other"));
  write("[1]");
  EXPECT_THAT(error(), HasSubstr("is not a T4 file"));
  write(document({R"({"configuration": 3})"}));
  EXPECT_THAT(error(), HasSubstr("result 1 is not a T4 result"));
  write(document({result(3, 1, "0.5")}));
  EXPECT_THAT(error(), HasSubstr("is --space the space that was recorded?"));
}

TEST_F(RecordingFile, RefusesASpaceThatCannotHaveBeenRecorded) {
  write(document({result(1, 0, "3.5")}));
  const BoundSpace huge = test::make_space(std::vector<std::string>(6, "range(100)"));
  try {
    load_recording(path_, huge);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has 1000000000000 configurations"));
  }
}

TEST_F(RecordingFile, ReadsThePublishedRecordings) {
  const std::string folder = "../shared/recorded_spaces/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not here";
  const BoundSpace space = SearchSpace::load(folder + "convolution_milo.T1.json").bind();
  const Recording recording = load_recording(folder + "convolution_milo.A100.T4.json.gz", space);
  EXPECT_EQ(recording.times.size(), 4362u);
  EXPECT_EQ(recording.failures, 161u);
  EXPECT_EQ(recording.unrecorded + recording.foreign, 0u);
  EXPECT_NEAR(*std::min_element(recording.times.begin(), recording.times.end()), 0.5536, 5e-5);
}

}  // namespace
}  // namespace knobwise
