// Sessions about given configurations alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_spaces/user_error.h"
#include "tests/tuner/command.h"
#include "tests/tuner/silent.h"
#include "tuner/session.h"

namespace knobwise::test {
namespace {

class GivenConfigurations : public testing::Test {
 protected:
  GivenConfigurations() {
    options_.executable = KNOBWISE_EXECUTABLE;
    options_.devices = {{"cpu", open_device("cpu")->info()}};
    options_.accuracy = AccuracyRequirement::parse("any");
    options_.max_trials = 1;  // no limit to what is given
    for (const char* name : {"direct_conv", "onednn"}) {
      const KernelFamily& family = *find_family(Backend::cpu, name);
      const BoundSpace space = bind_space(family, problem_, options_.devices.front().info);
      options_.configurations.emplace_back(name, space.configuration(0));
      options_.configurations.emplace_back(name, space.configuration(space.size() - 1));
    }
  }

  SessionResult tune() { return knobwise::tune(store_, problem_, options_, listener_).front(); }

  Problem problem_ = Problem::parse("conv2d n=1 c=4 h=9 w=9 k=8 r=3 s=3 | relu");
  SessionOptions options_;
  Silent listener_;
  Store store_ = Store::in_memory();
};

TEST_F(GivenConfigurations, AreTheOnlyTrials) {
  const SessionResult result = tune();
  EXPECT_EQ(result.evaluated, 4);
  std::vector<std::pair<std::string, std::string>> tried, given;
  for (const TrialRecord& trial : store_.session_trials(result.id))
    tried.emplace_back(store_.family(trial.family).name, trial.configuration);
  for (const auto& [family, configuration] : options_.configurations)
    given.emplace_back(family, configuration.to_json());
  EXPECT_THAT(tried, testing::UnorderedElementsAreArray(given));
  EXPECT_TRUE(result.baselines.empty());
  EXPECT_EQ(store_.counts().baselines, 0);

  const SessionResult again = tune();
  EXPECT_EQ(again.evaluated, 0);
  EXPECT_EQ(again.reused, 4);
}

TEST_F(GivenConfigurations, OfTheSameKindAreTriedOnce) {
  options_.configurations = {options_.configurations.front(), options_.configurations.front()};
  EXPECT_EQ(tune().evaluated, 1);
}

TEST_F(GivenConfigurations, MayGiveZerosThatHaveNoRelativeError) {
  problem_ =
      Problem::parse("conv2d n=1 c=3 h=9 w=9 k=6 r=3 s=3 bias | instance_norm | mean height | mean width");
  for (auto& [name, configuration] : options_.configurations) {
    const KernelFamily& family = *find_family(Backend::cpu, name);
    configuration = default_configuration(family, problem_, options_.devices.front().info).value();
  }
  const SessionResult result = tune();
  EXPECT_EQ(result.failed, 0);
  for (const TrialRecord& trial : store_.session_trials(result.id)) EXPECT_EQ(trial.reason, "");
}

TEST_F(GivenConfigurations, MustBeInTheirSpace) {
  options_.configurations.emplace_back("direct_conv", Configuration({{"colour", Value(std::int64_t{1})}}));
  EXPECT_THROW(tune(), UserError);
  options_.configurations = {{"indirect_conv", options_.configurations.front().second}};
  EXPECT_THROW(tune(), UserError);
  EXPECT_EQ(store_.counts().sessions, 0);
}

}  // namespace
}  // namespace knobwise::test
