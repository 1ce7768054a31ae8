// Which trials' machine code a session stores.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "db/identifiers.h"
#include "tests/tuner/command.h"
#include "tests/tuner/silent.h"
#include "tests/tuner/temporary_folder.h"
#include "tuner/session.h"

namespace knobwise::test {
namespace {

class StoreCode : public testing::Test {
 protected:
  StoreCode() : space_(bind_space(family_, problem_, info_)) {
    setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
    options_.executable = KNOBWISE_EXECUTABLE;
    options_.devices = {{"cpu", info_}};
    options_.accuracy = AccuracyRequirement::parse("allclose");
    options_.configurations = {{"direct_conv", space_.configuration(0)}};
    options_.max_trials = 1;
  }
  ~StoreCode() override { unsetenv("KNOBWISE_CACHE"); }

  SessionResult tune() { return knobwise::tune(store_, problem_, options_, listener_).front(); }

  /// A trial that is faster than `like`, and as accurate as one TF32 product.
  std::int64_t record_faster(const TrialRecord& like) {
    SessionRecord session;
    session.uuid = make_uuid(), session.strategy = "exhaustive", session.started = utc_now();
    session.device = like.device, session.environment = like.environment, session.problem = like.problem;
    TrialRecord faster = like;
    faster.session = store_.begin_session(session);
    faster.configuration = space_.configuration(space_.size() - 1).to_json();
    faster.timing = TimingRecord{.time_us = 1e-3, .min_us = 1e-3, .mean_us = 1e-3, .samples = {}};
    for (ErrorRecord& error : faster.errors) error.rel_fro = 5e-4, error.frac_outside = 0.1;
    return store_.insert_trial(faster).id;
  }

  TemporaryFolder folder_;
  const DeviceInfo info_ = open_device("cpu")->info();
  const KernelFamily& family_ = *find_family(Backend::cpu, "direct_conv");
  const Problem problem_ = Problem::parse("conv2d n=1 c=4 h=9 w=9 k=8 r=3 s=3 | relu");
  const BoundSpace space_;
  SessionOptions options_;
  Silent listener_;
  Store store_ = Store::in_memory();
};

TEST_F(StoreCode, OnRequestOnly) {
  const SessionResult result = tune();
  ASSERT_TRUE(result.best);
  EXPECT_FALSE(store_.code(result.best->id));
}

TEST_F(StoreCode, OfTheBestAtEveryNamedAccuracy) {
  const SessionResult first = tune();
  ASSERT_TRUE(first.best);
  const std::int64_t coarse = record_faster(*first.best);
  options_.store_code = true;
  const SessionResult second = tune();
  ASSERT_TRUE(second.best);
  EXPECT_EQ(second.best->id, first.best->id);
  EXPECT_TRUE(store_.code(second.best->id));
  EXPECT_TRUE(store_.code(coarse));
}

}  // namespace
}  // namespace knobwise::test
