// Which trials on record a search begins with.
#include "tuner/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/identifiers.h"
#include "runtime/records.h"

namespace knobwise {
namespace {

using testing::ElementsAre;

class Tiles : public KernelFamily {
 public:
  std::string_view name() const override { return "tiles"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem&, const DeviceInfo&) const override {
    return {};
  }
  std::string_view space_json() const override {
    return R"({"ConfigurationSpace": {"TuningParameters": [
      {"Name": "tile", "Type": "int", "Values": "[1, 2, 4, 8, 16, 32]"},
      {"Name": "mode", "Type": "string", "Values": ["a", "b"]}]}})";
  }
  std::string source_hash() const override { return "now"; }
};

class WarmStarts : public testing::Test {
 protected:
  WarmStarts() {
    here_.name = "this processor";
    here_.architecture = "x86-64-v3";
    here_.multiprocessors = 8;
    here_.memory_bytes = std::int64_t{64} << 30;
    elsewhere_ = here_;
    elsewhere_.name = "another processor";
    elsewhere_.architecture = "x86-64-v4";
  }

  void record(const std::string& line, const DeviceInfo& device, const std::string& configuration,
              double time_us, const std::string& hash = "old", double frac_outside = 0,
              const std::string& family = "tiles", const std::string& started = "2026-01-01T00:00:00.000Z") {
    TrialRecord trial;
    trial.device = store_.intern_device(device_record(device));
    trial.environment = store_.intern_environment({"", "", "c++", "0", "Linux"});
    trial.problem = store_.intern_problem(problem_record(Problem::parse(line)));
    trial.family = store_.intern_family({"cpu", family, hash});
    SessionRecord session;
    session.uuid = make_uuid();
    session.device = trial.device, session.environment = trial.environment, session.problem = trial.problem;
    session.strategy = "auto", session.accuracy = "allclose", session.started = utc_now();
    trial.session = store_.begin_session(session);
    trial.configuration = configuration;
    trial.timing = TimingRecord{time_us, TimeKind::median, time_us, time_us, {1.0f}};
    trial.errors = {{"uniform", 0, 0, 0, 0, frac_outside, 10, 0}};
    trial.started = started;
    store_.insert_trial(trial);
  }

  std::vector<std::string> starts(const std::string& before = "2026-06-01T00:00:00.000Z") {
    const Problem problem = Problem::parse("conv1d n=1 c=8 w=1000 k=8 s=3");
    const BoundSpace space = bind_space(family_, problem, here_);
    std::vector<std::string> configurations;
    for (std::uint64_t index :
         warm_starts(store_, {family_, problem, here_, space, allclose_limits(), before}))
      configurations.push_back(space.configuration(index).to_json());
    return configurations;
  }

  static constexpr const char* kSame = "conv1d n=1 c=8 w=1000 k=8 s=3";
  static constexpr const char* kNear = "conv1d n=1 c=8 w=2000 k=8 s=3";
  static constexpr const char* kFar = "conv1d n=64 c=64 w=4000 k=64 s=3";
  Tiles family_;
  DeviceInfo here_, elsewhere_;
  Store store_ = Store::in_memory();
};

TEST_F(WarmStarts, AnEmptyDatabaseGivesNone) {
  EXPECT_TRUE(starts().empty());
}

TEST_F(WarmStarts, TheNearestSourceComesFirstAndTheFastestOfEachInTurn) {
  record(kFar, here_, R"({"tile":1,"mode":"a"})", 1);
  record(kNear, here_, R"({"tile":8,"mode":"a"})", 20);
  record(kNear, here_, R"({"tile":4,"mode":"a"})", 10);
  record(kSame, elsewhere_, R"({"tile":16,"mode":"b"})", 5);
  EXPECT_THAT(starts(), ElementsAre(R"({"tile":4,"mode":"a"})", R"({"tile":16,"mode":"b"})",
                                    R"({"tile":1,"mode":"a"})", R"({"tile":8,"mode":"a"})"));
}

TEST_F(WarmStarts, WhatFailedOrIsInaccurateOrOfAnotherFamilyOrTooLateDoesNotCount) {
  record(kNear, here_, R"({"tile":1,"mode":"a"})", 1, "old", 0.5);
  record(kNear, here_, R"({"tile":2,"mode":"a"})", 1, "old", 0, "others");
  record(kNear, here_, R"({"tile":4,"mode":"a"})", 1, "old", 0, "tiles", "2026-06-01T00:00:00.000Z");
  record(kNear, here_, R"({"tile":8,"mode":"a"})", 1, "older");
  EXPECT_THAT(starts(), ElementsAre(R"({"tile":8,"mode":"a"})"));
}

TEST_F(WarmStarts, OtherKindsOfProblemsDoNotCount) {
  record("conv2d n=1 c=8 h=100 w=100 k=8 r=3 s=3", here_, R"({"tile":1,"mode":"a"})", 1);
  record("conv1d n=1 c=8 w=1000 k=8 s=3 | relu", here_, R"({"tile":1,"mode":"a"})", 1);
  record("user:conv size=1000", here_, R"({"tile":1,"mode":"a"})", 1);
  EXPECT_TRUE(starts().empty());
}

TEST_F(WarmStarts, ValuesThatTheSpaceLacksGiveWayToTheNearest) {
  record(kNear, here_, R"({"tile":24,"mode":"a"})", 1);
  record(kNear, here_, R"({"tile":100,"mode":"b"})", 2);
  record(kNear, here_, R"({"tile":1,"mode":"gone"})", 3);
  record(kNear, here_, R"({"tile":1})", 4);
  EXPECT_THAT(starts(), ElementsAre(R"({"tile":16,"mode":"a"})", R"({"tile":32,"mode":"b"})"));
}

TEST_F(WarmStarts, AreAFew) {
  for (int i = 0; i < 12; ++i)
    record(kNear, here_,
           i % 2 ? R"({"tile":)" + std::to_string(1 << i / 2) + R"(,"mode":"b"})"
                 : R"({"tile":)" + std::to_string(1 << i / 2) + R"(,"mode":"a"})",
           i + 1);
  EXPECT_EQ(starts().size(), 8u);
}

}  // namespace
}  // namespace knobwise
