#include "db/records.h"

#include <gmock/gmock.h>

#include <chrono>
#include <limits>
#include <set>
#include <stdexcept>

#include "db/identifiers.h"
#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Records, WordsOfStatusesAreUniqueAndParseBack) {
  std::set<std::string_view> words;
  for (const TrialStatus status : all_trial_statuses()) {
    EXPECT_TRUE(words.insert(to_string(status)).second);
    EXPECT_EQ(parse_trial_status(to_string(status)), status);
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(TrialStatus::internal_error) + 1);
  EXPECT_EQ(to_string(TrialStatus::out_of_bounds), "out_of_bounds");
  EXPECT_THROW(parse_trial_status("great"), std::invalid_argument);
}

TEST(Records, WordsOfStatesAndTimeKindsParseBack) {
  for (const char* word : {"running", "finished", "interrupted", "failed"}) {
    EXPECT_EQ(to_string(parse_session_state(word)), word);
  }
  for (const char* word : {"median", "lower_quartile", "minimum"})
    EXPECT_EQ(to_string(parse_time_kind(word)), word);
  EXPECT_THROW(parse_session_state(""), std::invalid_argument);
  EXPECT_THROW(parse_time_kind("mode"), std::invalid_argument);
}

TEST(Records, EqualNamesWithOtherSizesAreOtherDevices) {
  DeviceRecord half = gpu();
  half.multiprocessors = 66;
  EXPECT_EQ(match_devices(gpu(), half), DeviceMatch::same_architecture);
  DeviceRecord small = gpu();
  small.memory_bytes /= 2;
  EXPECT_EQ(match_devices(gpu(), small), DeviceMatch::same_architecture);
  EXPECT_FALSE(same_device(gpu(), small));
}

TEST(Records, EqualHardwareUnderAnotherNameIsATwin) {
  DeviceRecord twin = gpu();
  twin.name = "NVIDIA H200 NVL";
  EXPECT_EQ(match_devices(gpu(), twin), DeviceMatch::same_hardware);
}

TEST(Records, ReservedMemoryClocksAndExtrasDoNotChangeADevice) {
  DeviceRecord again = gpu();
  again.memory_bytes -= 60 << 20;
  again.clock_khz = 1'000'000;
  again.extra = "{}";
  EXPECT_TRUE(same_device(gpu(), again));
}

TEST(Records, AnotherArchitectureOrBackendIsDifferent) {
  DeviceRecord other = gpu();
  other.architecture = "sm_80";
  EXPECT_EQ(match_devices(gpu(), other), DeviceMatch::different);
  other = gpu();
  other.backend = "cpu";
  EXPECT_EQ(match_devices(gpu(), other), DeviceMatch::different);
}

TEST(Records, LimitsAreJudgedOverEveryDistribution) {
  std::vector<ErrorRecord> measured = errors();
  EXPECT_TRUE(meets(measured, allclose_limits()));
  measured[1].frac_outside = 1e-9;
  EXPECT_FALSE(meets(measured, allclose_limits()));
  EXPECT_TRUE(meets(measured, {}));
}

TEST(Records, NanNeverMeetsALimit) {
  std::vector<ErrorRecord> measured = errors();
  measured[0].rel_fro = kNan;
  AccuracyLimits limits;
  limits.rel_fro = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(meets(measured, limits));
  measured = errors();
  measured[2].nan_count = 1;
  EXPECT_FALSE(meets(measured, {}));
  limits.rel_fro = kNan;
  EXPECT_FALSE(meets(errors(), limits));
}

TEST(Records, WithoutAMeasurementNoLimitsAreMet) {
  EXPECT_FALSE(meets({}, {}));
}

TEST(Identifiers, MomentsAreIsoTextInUtc) {
  using namespace std::chrono;
  EXPECT_EQ(utc_text(sys_days{2026y / 2 / 28} + 23h + 59min + 58s + 7ms), "2026-02-28T23:59:58.007Z");
  EXPECT_EQ(utc_text(system_clock::time_point{}), "1970-01-01T00:00:00.000Z");
}

TEST(Identifiers, UuidsAreVersionFourAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = make_uuid();
    EXPECT_THAT(
        uuid, ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

}  // namespace
}  // namespace knobwise::testing
