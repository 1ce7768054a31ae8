// What the report derives from the trials: knob columns, importances, ceilings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "reports/ceilings.h"
#include "reports/knob_importance.h"
#include "reports/knob_table.h"

namespace knobwise {
namespace {

using nlohmann::ordered_json;

TrialRecord timed(const std::string& configuration, double time_us) {
  TrialRecord trial;
  trial.configuration = configuration;
  trial.timing = TimingRecord{time_us, TimeKind::median, time_us, time_us, {}};
  return trial;
}

// Time depends strongly on a, weakly on b, not on c.
std::vector<TrialRecord> synthetic_trials(int count) {
  std::mt19937_64 engine(4);
  std::vector<TrialRecord> trials;
  for (int i = 0; i < count; ++i) {
    const int a = static_cast<int>(engine() % 6), b = static_cast<int>(engine() % 4),
              c = static_cast<int>(engine() % 8);
    trials.push_back(timed(ordered_json{{"a", 1 << a}, {"b", b}, {"c", c}}.dump(),
                           100 * std::pow(1.6, a) * (1 + 0.1 * b)));
  }
  return trials;
}

TEST(KnobTable, RestoresEveryConfiguration) {
  const std::vector<std::string> configurations = {R"({"tile":16,"source":"shared","wide":true})",
                                                   R"({"tile":4,"source":"global","wide":false})",
                                                   R"({"tile":128,"other":2.5})", R"({})"};
  std::vector<TrialRecord> trials;
  for (const std::string& configuration : configurations) trials.push_back(timed(configuration, 1));
  const std::vector<KnobColumn> knobs = knob_table(trials);
  for (std::size_t i = 0; i < trials.size(); ++i) {
    ordered_json restored = ordered_json::object();
    for (const KnobColumn& knob : knobs) {
      if (knob.value_of[i] >= 0) restored[knob.name] = ordered_json::parse(knob.values[knob.value_of[i]]);
    }
    EXPECT_EQ(restored.dump(), configurations[i]);
  }
}

TEST(KnobTable, SortsNumbersByValueBeforeWords) {
  std::vector<TrialRecord> trials;
  for (const char* value : {"\"b\"", "100", "9", "\"a\"", "-1"})
    trials.push_back(timed(std::string("{\"k\":") + value + "}", 1));
  EXPECT_THAT(knob_table(trials)[0].values, testing::ElementsAre("-1", "9", "100", "\"a\"", "\"b\""));
}

TEST(KnobImportance, RanksTheDecisiveKnobFirst) {
  const std::vector<TrialRecord> trials = synthetic_trials(300);
  const KnobImportance importance = knob_importance(trials, knob_table(trials));
  ASSERT_EQ(importance.features.size(), 3u);
  EXPECT_EQ(importance.features[0].feature, "a");
  EXPECT_EQ(importance.features[2].feature, "c");
  EXPECT_GT(importance.features[0].importance, 20 * importance.features[2].importance);
  EXPECT_GT(importance.explained, 0.9);
  EXPECT_LE(importance.explained, 1.0);
}

TEST(KnobImportance, AModelOfNoiseExplainsNothing) {
  std::mt19937_64 engine(9);
  std::vector<TrialRecord> trials = synthetic_trials(300);
  for (TrialRecord& trial : trials) trial.timing->time_us = 100 + static_cast<double>(engine() % 1000);
  EXPECT_LT(knob_importance(trials, knob_table(trials)).explained, 0.2);
}

TEST(KnobImportance, IsDeterministic) {
  const std::vector<TrialRecord> trials = synthetic_trials(120);
  const KnobImportance first = knob_importance(trials, knob_table(trials));
  const KnobImportance second = knob_importance(trials, knob_table(trials));
  EXPECT_EQ(first.explained, second.explained);
  for (std::size_t i = 0; i < first.features.size(); ++i)
    EXPECT_EQ(first.features[i].importance, second.features[i].importance);
}

TEST(KnobImportance, TooLittleToLearnFromGivesNothing) {
  EXPECT_TRUE(knob_importance({}, {}).features.empty());
  std::vector<TrialRecord> trials = synthetic_trials(5);
  EXPECT_TRUE(knob_importance(trials, knob_table(trials)).features.empty());
  std::vector<TrialRecord> same(50, timed(R"({"a":1})", 7));
  EXPECT_TRUE(knob_importance(same, knob_table(same)).features.empty());
  std::vector<TrialRecord> constant = synthetic_trials(50);
  for (TrialRecord& trial : constant) trial.timing->time_us = 7;
  EXPECT_TRUE(knob_importance(constant, knob_table(constant)).features.empty());
}

DeviceRecord device(const std::string& extra) {
  DeviceRecord record;
  record.backend = "cuda", record.architecture = "sm_90a", record.multiprocessors = 132,
  record.clock_khz = 1980000;
  record.extra = extra;
  return record;
}

const Ceiling* find(const std::vector<Ceiling>& ceilings, const std::string& resource) {
  for (const Ceiling& ceiling : ceilings) {
    if (ceiling.resource == resource) return &ceiling;
  }
  return nullptr;
}

TEST(Ceilings, MeasuredOnesComeFirstAndRatedOnesFillGaps) {
  const auto ceilings = device_ceilings(device(R"({"ceilings": {"memory": 4.25e12, "fp32": 5.07e13}})"));
  ASSERT_NE(find(ceilings, "memory"), nullptr);
  EXPECT_TRUE(find(ceilings, "memory")->measured);
  EXPECT_EQ(find(ceilings, "fp32")->per_second, 5.07e13);
  EXPECT_FALSE(find(ceilings, "tf32")->measured);
  // 132 multiprocessors at 1.98 GHz with 2048 operations a cycle.
  EXPECT_DOUBLE_EQ(find(ceilings, "tf32")->per_second, 132 * 1.98e9 * 2048);
}

TEST(Ceilings, UnknownStaysUnknown) {
  EXPECT_EQ(find(device_ceilings(device("{}")), "memory"), nullptr);
  DeviceRecord unknown = device("{}");
  unknown.architecture = "sm_999";
  EXPECT_TRUE(device_ceilings(unknown).empty());
  DeviceRecord no_clock = device("{}");
  no_clock.clock_khz = 0;
  EXPECT_TRUE(device_ceilings(no_clock).empty());
  for (const char* extra :
       {"[]", "nonsense", R"({"ceilings": 3})", R"({"ceilings": {"memory": "fast", "fp32": -1}})"}) {
    EXPECT_EQ(find(device_ceilings(device(extra)), "memory"), nullptr) << extra;
    EXPECT_FALSE(find(device_ceilings(device(extra)), "fp32")->measured) << extra;
  }
}

TEST(Ceilings, MeasuringAgainReplacesThemAndKeepsTheOtherFacts) {
  const std::string once = with_ceilings(R"({"ecc":true})", {{"memory", 1e12}, {"fp32", 2e13}}, "2026-01-01");
  const std::string again = with_ceilings(once, {{"memory", 3e12}}, "2026-01-02");
  EXPECT_EQ(again, R"({"ceilings":{"memory":3000000000000.0},"ceilings_measured":"2026-01-02","ecc":true})");
  EXPECT_EQ(find(device_ceilings(device(again)), "memory")->per_second, 3e12);
  EXPECT_FALSE(find(device_ceilings(device(again)), "fp32")->measured) << "measured then, not now";
}

TEST(Ceilings, TheFloorIsTheResourceThatTakesLonger) {
  const DeviceRecord record = device(R"({"ceilings": {"memory": 1e12, "fp32": 1e13, "tf32": 1e14, "fp16": 2e14}})");
  ProblemRecord problem;
  problem.dtype = "f32";
  problem.compulsory_bytes = 1'000'000'000;  // 1 ms
  problem.flops = 5'000'000'000;             // 0.5 ms in fp32
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "fp32")->time_us, 1000);
  EXPECT_EQ(floor_time(record, problem, "fp32")->resource, "memory");
  problem.flops *= 100;
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "fp32")->time_us, 50'000);
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "tf32")->time_us, 5'000);
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "tf32x3")->time_us, 15'000);
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "fp16_e5m2")->time_us, 5'000) << "fp16, and as long again in e5m2";
  EXPECT_DOUBLE_EQ(floor_time(record, problem, "")->time_us, 50'000) << "the problem's type";
  EXPECT_TRUE(floor_time(record, problem, "tf32")->measured);
  EXPECT_FALSE(floor_time(DeviceRecord{}, problem, "fp32"));
}

TEST(Ceilings, AProcessorsPeakFollowsItsVectors) {
  DeviceRecord processor;
  processor.backend = "cpu", processor.architecture = "x86-64-v3", processor.multiprocessors = 4;
  processor.clock_khz = 3000000, processor.extra = R"({"vector_bytes": 32})";
  const auto ceilings = device_ceilings(processor);
  ASSERT_EQ(ceilings.size(), 1u);
  EXPECT_DOUBLE_EQ(ceilings[0].per_second, 4 * 3e9 * 8 * 4);
}

}  // namespace
}  // namespace knobwise
