#include "db/store.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "tests/db/fixtures.h"

namespace knobwise::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class StoreTest : public ::testing::Test {
 protected:
  std::int64_t add(TrialRecord record) {
    record.session_order = next_++;
    return store_.insert_trial(record).id;
  }
  std::int64_t add(int number, double time_us) { return add(trial(ids_, number, time_us)); }

  Store store_ = Store::in_memory();
  Ids ids_ = intern_all(store_);
  std::int64_t next_ = 0;
};

TEST_F(StoreTest, EveryRecordComesBackAsItWasStored) {
  EXPECT_EQ(store_.device(ids_.device), gpu());
  EXPECT_EQ(store_.environment(ids_.environment), environment());
  EXPECT_EQ(store_.problem(ids_.problem), problem());
  EXPECT_EQ(store_.family(ids_.family), family());
  const SessionRecord stored = session(ids_);
  EXPECT_EQ(store_.session(store_.begin_session(stored)), stored);
}

TEST_F(StoreTest, AFullTrialComesBackAsItWasStored) {
  TrialRecord full = trial(ids_, 7, 123.456);
  full.reason = "";
  full.resources = {.registers = 128,
                    .spill_bytes = 0,
                    .stack_bytes = 16,
                    .static_shared_bytes = 1024,
                    .dynamic_shared_bytes = 99'000,
                    .occupancy = 0.5,
                    .binary_bytes = 54'321};
  full.compile_seconds = 0.37;
  full.verify_seconds = 0.02;
  full.measure_seconds = 0.5;
  full.clock_khz = 1'980'000;
  full.temperature_c = 61.5;
  full.extra = R"({"note":"ünï"})";
  full.errors[0].max_abs = kInfinity;
  const InsertResult result = store_.insert_trial(full);
  EXPECT_TRUE(result.inserted);
  full.id = result.id;
  EXPECT_EQ(store_.trial(result.id), full);
}

TEST_F(StoreTest, EveryKindOfFailureIsStoredWithItsReason) {
  for (const TrialStatus status : all_trial_statuses()) {
    if (status == TrialStatus::ok) continue;
    TrialRecord failed = failed_trial(ids_, static_cast<int>(status), status, "line 1\nline 2");
    failed.id = store_.insert_trial(failed).id;
    EXPECT_EQ(store_.trial(failed.id), failed);
  }
}

TEST_F(StoreTest, TextWithQuotesAndSamplesOfAnySizeSurvive) {
  std::mt19937 random(7);
  for (int number = 0; number < 50; ++number) {
    TrialRecord record = trial(ids_, number, 1 + number);
    record.configuration = "{\"a'b\\\"\":\"" + std::string(static_cast<std::size_t>(number), ';') + "\"}";
    record.timing->samples.assign(random() % 100, 0);
    for (float& sample : record.timing->samples) {
      sample = std::ldexp(static_cast<float>(random() % 1000), number - 25);
    }
    record.id = add(record);
    record.session_order = number;
    EXPECT_EQ(store_.trial(record.id), record);
  }
}

TEST_F(StoreTest, InterningTwiceYieldsOneRow) {
  EXPECT_EQ(store_.intern_device(gpu()), ids_.device);
  EXPECT_EQ(store_.intern_environment(environment()), ids_.environment);
  EXPECT_EQ(store_.intern_problem(problem()), ids_.problem);
  EXPECT_EQ(store_.intern_family(family()), ids_.family);
  const StoreCounts counts = store_.counts();
  EXPECT_EQ(counts.devices + counts.environments + counts.problems + counts.families, 4);
}

TEST_F(StoreTest, EveryPartOfAnEnvironmentAndFamilyCounts) {
  for (auto part :
       {&EnvironmentRecord::driver_version, &EnvironmentRecord::toolkit_version, &EnvironmentRecord::compiler,
        &EnvironmentRecord::knobwise_version, &EnvironmentRecord::os}) {
    EnvironmentRecord other = environment();
    other.*part += "x";
    EXPECT_EQ(store_.find_environment(other), std::nullopt);
    EXPECT_NE(store_.intern_environment(other), ids_.environment);
  }
  for (auto part : {&FamilyRecord::backend, &FamilyRecord::name, &FamilyRecord::source_hash}) {
    FamilyRecord other = family();
    other.*part += "x";
    EXPECT_EQ(store_.find_family(other), std::nullopt);
    EXPECT_NE(store_.intern_family(other), ids_.family);
  }
}

TEST_F(StoreTest, DevicesAreFoundByIdentityNotByName) {
  DeviceRecord half = gpu();
  half.multiprocessors = 66;
  EXPECT_EQ(store_.find_device(half), std::nullopt);
  EXPECT_NE(store_.intern_device(half), ids_.device);
  DeviceRecord again = gpu();
  again.memory_bytes -= 60 << 20;
  again.clock_khz += 15'000;
  EXPECT_EQ(store_.find_device(again), ids_.device);
}

TEST_F(StoreTest, LikeDevicesComeBestMatchFirst) {
  DeviceRecord half = gpu(), twin = gpu(), stranger = gpu();
  half.multiprocessors = 66;
  twin.name = "NVIDIA H200 NVL";
  stranger.architecture = "sm_80";
  const std::int64_t half_id = store_.intern_device(half);
  const std::int64_t twin_id = store_.intern_device(twin);
  store_.intern_device(stranger);
  std::vector<std::int64_t> order;
  for (const auto& [stored, match] : store_.devices_like(gpu())) order.push_back(stored.id);
  EXPECT_THAT(order, ElementsAre(ids_.device, twin_id, half_id));
}

TEST_F(StoreTest, TheSameWorkIsStoredOnce) {
  const InsertResult first = store_.insert_trial(trial(ids_, 0, 10));
  TrialRecord again = trial(ids_, 0, 5);
  again.session_order = 1;
  const InsertResult second = store_.insert_trial(again);
  EXPECT_FALSE(second.inserted);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(store_.trial(first.id).timing->time_us, 10);
  EXPECT_EQ(store_.counts().trials, 1);
}

TEST_F(StoreTest, AnotherDriverOrSourceIsOtherWork) {
  add(0, 10);
  TrialRecord other = trial(ids_, 0, 11);
  other.environment = store_.intern_environment(environment("590.1"));
  add(other);
  other = trial(ids_, 0, 12);
  other.family = store_.intern_family(family("ffff"));
  add(other);
  EXPECT_EQ(store_.counts().trials, 3);
}

TEST_F(StoreTest, TimesMustBeAboveZeroAndFinite) {
  for (const double time : {0.0, -1.0, kNan, kInfinity, -kInfinity}) {
    for (auto part : {&TimingRecord::time_us, &TimingRecord::min_us, &TimingRecord::mean_us}) {
      TrialRecord record = trial(ids_, 0, 10);
      (*record.timing).*part = time;
      EXPECT_THROW(store_.insert_trial(record), std::invalid_argument) << time;
      BaselineRecord baseline{.device = ids_.device,
                              .environment = ids_.environment,
                              .problem = ids_.problem,
                              .name = "oneDNN f32",
                              .timing = *record.timing,
                              .errors = {},
                              .started = utc_now()};
      EXPECT_THROW(store_.put_baseline(baseline), std::invalid_argument) << time;
    }
  }
  EXPECT_EQ(store_.counts().trials + store_.counts().baselines, 0);
}

TEST_F(StoreTest, ATrialHasATimeExactlyWhenItIsOk) {
  TrialRecord untimed = trial(ids_, 0, 10);
  untimed.timing.reset();
  EXPECT_THROW(store_.insert_trial(untimed), std::invalid_argument);
  TrialRecord wrong_but_fast = trial(ids_, 0, 10);
  wrong_but_fast.status = TrialStatus::wrong_result;
  EXPECT_THROW(store_.insert_trial(wrong_but_fast), std::invalid_argument);
}

TEST_F(StoreTest, BrokenRecordsAreRefusedWhole) {
  const auto refuse = [this](auto&& change) {
    TrialRecord record = trial(ids_, 0, 10);
    change(record);
    EXPECT_THROW(store_.insert_trial(record), std::invalid_argument);
  };
  refuse([](TrialRecord& r) { r.configuration = "{tile: 1}"; });
  refuse([](TrialRecord& r) { r.configuration = "[1]"; });
  refuse([](TrialRecord& r) { r.family = 99; });
  refuse([](TrialRecord& r) { r.session = 99; });
  refuse([](TrialRecord& r) { r.started = "yesterday"; });
  refuse([](TrialRecord& r) { r.wall_seconds = -1; });
  refuse([](TrialRecord& r) { r.wall_seconds = kNan; });
  refuse([](TrialRecord& r) { r.resources.occupancy = 1.5; });
  refuse([](TrialRecord& r) { r.errors[0].distribution = "zeros"; });
  refuse([](TrialRecord& r) { r.errors[1].distribution = r.errors[0].distribution; });
  refuse([](TrialRecord& r) { r.errors[2].checked = 0; });
  refuse([](TrialRecord& r) { r.errors[2].frac_outside = 1.5; });
  EXPECT_EQ(store_.counts().trials, 0);
  EXPECT_TRUE(store_.insert_trial(trial(ids_, 0, 10)).inserted);
}

TEST_F(StoreTest, ProblemsAndDevicesMustMakeSense) {
  ProblemRecord flat = problem("flat");
  flat.h = 0;
  EXPECT_THROW(store_.intern_problem(flat), std::invalid_argument);
  DeviceRecord nothing = gpu();
  nothing.multiprocessors = 0;
  EXPECT_THROW(store_.intern_device(nothing), std::invalid_argument);
  nothing = gpu();
  nothing.backend = "abacus";
  EXPECT_THROW(store_.intern_device(nothing), std::invalid_argument);
  EXPECT_THROW(store_.problem(99), std::invalid_argument);
}

TEST_F(StoreTest, TwoTrialsOfASessionNeverShareAPlace) {
  store_.insert_trial(trial(ids_, 0, 10));
  TrialRecord second = trial(ids_, 1, 10);
  second.session_order = 0;
  EXPECT_THROW(store_.insert_trial(second), std::invalid_argument);
}

TEST_F(StoreTest, ABatchIsStoredWholeOrNotAtAll) {
  std::vector<TrialRecord> batch;
  for (int i = 0; i < 10; ++i) batch.push_back(trial(ids_, i, 10 + i));
  batch[9].timing->time_us = 0;
  EXPECT_THROW(store_.insert_trials(batch), std::invalid_argument);
  EXPECT_EQ(store_.counts().trials, 0);
  batch[9].timing->time_us = 1;
  batch.push_back(batch[3]);
  const std::vector<InsertResult> results = store_.insert_trials(batch);
  ASSERT_EQ(results.size(), 11u);
  EXPECT_FALSE(results[10].inserted);
  EXPECT_EQ(results[10].id, results[3].id);
  EXPECT_EQ(store_.counts().trials, 10);
}

TEST_F(StoreTest, AResumedSearchSeesEveryFinishedConfiguration) {
  add(0, 10);
  add(failed_trial(ids_, 1, TrialStatus::crashed, "illegal address"));
  TrialRecord elsewhere = trial(ids_, 2, 10);
  elsewhere.family = store_.intern_family(family("ffff"));
  add(elsewhere);
  const auto finished = store_.finished_trials(ids_.device, ids_.environment, ids_.problem, ids_.family);
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished.at(configuration(0)).errors, errors());
  EXPECT_EQ(finished.at(configuration(1)).status, TrialStatus::crashed);
  EXPECT_THAT(store_.finished_trials(ids_.device, 99, ids_.problem, ids_.family), IsEmpty());
}

TEST_F(StoreTest, TrialsOfASessionComeInItsOrder) {
  store_.insert_trial(trial(ids_, 2, 10));
  store_.insert_trial(trial(ids_, 0, 10));
  std::vector<std::int64_t> order;
  for (const TrialRecord& record : store_.session_trials(ids_.session)) order.push_back(record.session_order);
  EXPECT_THAT(order, ElementsAre(0, 2));
  EXPECT_EQ(store_.next_session_order(ids_.session), 3);
  EXPECT_EQ(store_.next_session_order(99), 0);
  EXPECT_EQ(store_.trials(ids_.problem, ids_.device).size(), 2u);
}

TEST_F(StoreTest, RetimingReplacesTheTimesOnly) {
  const std::int64_t id = add(0, 10);
  const TrialRecord before = store_.trial(id);
  store_.update_timing(id, timing(12));
  TrialRecord after = store_.trial(id);
  EXPECT_EQ(after.timing, timing(12));
  EXPECT_TRUE(after.retimed.has_value());
  after.timing = before.timing;
  after.retimed = before.retimed;
  EXPECT_EQ(after, before);
  TimingRecord zero = timing(12);
  zero.time_us = 0;
  EXPECT_THROW(store_.update_timing(id, zero), std::invalid_argument);
  zero.time_us = kNan;
  EXPECT_THROW(store_.update_timing(id, zero), std::invalid_argument);
  EXPECT_EQ(store_.trial(id).timing, timing(12));
}

TEST_F(StoreTest, OnlyOkTrialsAreRetimedOrTakenBack) {
  const std::int64_t id = add(0, 10);
  store_.mark_failed(id, TrialStatus::timeout, "took 10 s");
  EXPECT_EQ(store_.trial(id).status, TrialStatus::timeout);
  EXPECT_EQ(store_.trial(id).timing, std::nullopt);
  EXPECT_THROW(store_.update_timing(id, timing(1)), std::invalid_argument);
  EXPECT_THROW(store_.mark_failed(id, TrialStatus::crashed, ""), std::invalid_argument);
  EXPECT_THROW(store_.mark_failed(id, TrialStatus::ok, ""), std::invalid_argument);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, {}).trial, std::nullopt);
}

TEST_F(StoreTest, FurtherFactsOfADeviceAreReplacedAndItsIdentityStays) {
  const DeviceRecord before = store_.device(ids_.device);
  store_.update_device_extra(ids_.device, R"({"ceilings":{"memory":1e12}})");
  DeviceRecord after = store_.device(ids_.device);
  EXPECT_EQ(after.extra, R"({"ceilings":{"memory":1e12}})");
  EXPECT_EQ(store_.intern_device(before), ids_.device) << "the same device, not another";
  EXPECT_EQ(store_.device(ids_.device).extra, after.extra) << "seen again, it keeps them";
  after.extra = before.extra;
  EXPECT_EQ(after, before);
  EXPECT_THROW(store_.update_device_extra(ids_.device, "fast"), std::invalid_argument);
  EXPECT_THROW(store_.update_device_extra(999, "{}"), std::invalid_argument);
}

TEST_F(StoreTest, SessionsEndAndResume) {
  store_.finish_session(ids_.session, SessionState::interrupted);
  EXPECT_EQ(store_.session(ids_.session).state, SessionState::interrupted);
  EXPECT_TRUE(store_.session(ids_.session).finished.has_value());
  store_.resume_session(ids_.session);
  EXPECT_EQ(store_.session(ids_.session).state, SessionState::running);
  EXPECT_EQ(store_.session(ids_.session).finished, std::nullopt);
  EXPECT_EQ(store_.find_session(store_.session(ids_.session).uuid), ids_.session);
  EXPECT_EQ(store_.find_session(make_uuid()), std::nullopt);
  EXPECT_THROW(store_.finish_session(99, SessionState::finished), std::invalid_argument);
  EXPECT_THROW(store_.finish_session(ids_.session, SessionState::running), std::invalid_argument);
  EXPECT_EQ(store_.sessions().size(), 1u);
}

TEST_F(StoreTest, AUuidIsUsedOnce) {
  const SessionRecord first = store_.session(ids_.session);
  EXPECT_THROW(store_.begin_session(first), std::invalid_argument);
}

TEST_F(StoreTest, TheBestIsTheFastestThatMeetsTheLimits) {
  TrialRecord tf32 = trial(ids_, 0, 1);
  tf32.errors = errors(0.2, 3e-4);
  const std::int64_t tf32_id = add(tf32);
  const std::int64_t fp32_id = add(1, 5);
  add(2, 6);
  add(failed_trial(ids_, 3, TrialStatus::wrong_result, "off by 2"));

  EXPECT_EQ(store_.best(ids_.problem, ids_.device, allclose_limits()).trial->id, fp32_id);
  AccuracyLimits loose;
  loose.rel_fro = 1e-3;
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, loose).trial->id, tf32_id);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, {}).trial->id, tf32_id);
  AccuracyLimits strict;
  strict.max_abs = 1e-12;
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, strict).trial, std::nullopt);
  EXPECT_EQ(store_.best(99, ids_.device, {}).trial, std::nullopt);
}

TEST_F(StoreTest, OneBadDistributionDisqualifies) {
  TrialRecord record = trial(ids_, 0, 1);
  record.errors[1].frac_outside = 1e-6;
  add(record);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, allclose_limits()).trial, std::nullopt);
}

TEST_F(StoreTest, NanNeverPasses) {
  TrialRecord nan_metric = trial(ids_, 0, 1);
  nan_metric.errors[0].frac_outside = kNan;
  const std::int64_t id = add(nan_metric);
  EXPECT_TRUE(std::isnan(store_.trial(id).errors[0].frac_outside));
  TrialRecord nan_output = trial(ids_, 1, 2);
  nan_output.errors[2].nan_count = 1;
  add(nan_output);
  TrialRecord unmeasured = trial(ids_, 2, 3);
  unmeasured.errors.clear();
  add(unmeasured);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, allclose_limits()).trial, std::nullopt);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, {}).trial->id, id);
  AccuracyLimits nan_limit;
  nan_limit.rms = kNan;
  EXPECT_THROW(store_.best(ids_.problem, ids_.device, nan_limit), std::invalid_argument);
  EXPECT_THROW(store_.best_of_device(ids_.device, nan_limit), std::invalid_argument);
}

/// The judgement in SQL and the one in C++ are the same, for every metric and around every limit.
TEST_F(StoreTest, LimitsMeanTheSameInSqlAndInCode) {
  std::mt19937 random(11);
  const std::vector<double> values = {0, 1e-6, 1e-4, 0.5, 1, kNan};
  const auto pick = [&] { return values[random() % values.size()]; };
  const auto pick_limit = [&]() -> std::optional<double> {
    const double value = pick();
    return std::isnan(value) ? std::nullopt : std::optional(value);
  };
  for (int round = 0; round < 300; ++round) {
    TrialRecord record = trial(ids_, round, 1);
    record.problem = store_.intern_problem(problem("problem " + std::to_string(round)));
    record.errors.resize(1 + random() % 2);
    for (ErrorRecord& error : record.errors) {
      error.max_abs = pick(), error.mean_abs = pick(), error.rms = pick(), error.rel_fro = pick();
      error.frac_outside = pick(), error.nan_count = random() % 8 == 0;
    }
    const AccuracyLimits limits{pick_limit(), pick_limit(), pick_limit(), pick_limit(), pick_limit()};
    store_.insert_trial(record);
    EXPECT_EQ(store_.best(record.problem, record.device, limits).trial.has_value(),
              meets(record.errors, limits));
  }
}

TEST_F(StoreTest, StaleSourcesAreReportedNotServed) {
  TrialRecord old = trial(ids_, 0, 1);
  old.family = store_.intern_family(family("0ld"));
  const std::int64_t old_id = add(old);
  old = trial(ids_, 1, 2);
  old.family = store_.find_family(family("0ld")).value();
  add(old);
  const std::int64_t current_id = add(2, 5);
  TrialRecord slower = trial(ids_, 3, 9);
  slower.family = store_.intern_family(family("01der"));
  add(slower);

  const BestAnswer answer = store_.best(ids_.problem, ids_.device, allclose_limits(), {{family()}});
  EXPECT_EQ(answer.trial->id, current_id);
  ASSERT_EQ(answer.stale.size(), 1u);
  EXPECT_EQ(answer.stale[0].id, old_id);

  const BestAnswer none = store_.best(ids_.problem, ids_.device, allclose_limits(), {{family("new")}});
  EXPECT_EQ(none.trial, std::nullopt);
  EXPECT_EQ(none.stale.size(), 3u);
  EXPECT_EQ(store_.best(ids_.problem, ids_.device, allclose_limits()).trial->id, old_id);
}

TEST_F(StoreTest, ResultsOfAnotherEnvironmentAreStaleToWhoNamesTheirs) {
  TrialRecord old = trial(ids_, 0, 1);
  old.environment = store_.intern_environment(environment("470.1"));
  const std::int64_t old_id = add(old);
  const std::int64_t current_id = add(0, 5);
  const auto best = [&](const CurrentVersions& current) {
    return store_.best(ids_.problem, ids_.device, allclose_limits(), current);
  };
  EXPECT_EQ(best({{family()}}).trial->id, old_id);
  const BestAnswer answer = best({{family()}, environment()});
  EXPECT_EQ(answer.trial->id, current_id);
  ASSERT_EQ(answer.stale.size(), 1u);
  EXPECT_EQ(answer.stale[0].id, old_id);
  const BestAnswer unknown = best({{family()}, environment("999")});
  EXPECT_EQ(unknown.trial, std::nullopt);
  EXPECT_EQ(unknown.stale.size(), 2u);
}

TEST_F(StoreTest, TheBestOfADeviceListsEveryProblemWithAnAnswer) {
  const std::int64_t first = add(0, 5);
  TrialRecord other = trial(ids_, 0, 7);
  other.problem = store_.intern_problem(problem("conv1d n=1"));
  const std::int64_t second = add(other);
  TrialRecord rough = trial(ids_, 0, 7);
  rough.problem = store_.intern_problem(problem("conv1d n=2"));
  rough.errors = errors(0.5);
  add(rough);
  std::vector<std::int64_t> winners;
  for (const TrialRecord& record : store_.best_of_device(ids_.device, allclose_limits())) {
    winners.push_back(record.id);
  }
  EXPECT_THAT(winners, ElementsAre(first, second));
  EXPECT_THAT(store_.best_of_device(99, allclose_limits()), IsEmpty());
  EXPECT_THAT(store_.best_of_device(ids_.device, allclose_limits(), {{family("new")}}), IsEmpty());
}

TEST_F(StoreTest, BaselinesAreReplacedByKeyAndSortedByTime) {
  BaselineRecord slow{.device = ids_.device,
                      .environment = ids_.environment,
                      .problem = ids_.problem,
                      .name = "plain direct_conv default",
                      .timing = timing(50),
                      .errors = errors(),
                      .started = utc_now()};
  BaselineRecord fast = slow;
  fast.name = "cuDNN";
  fast.timing = timing(9);
  store_.put_baseline(slow);
  store_.put_baseline(fast);
  slow.timing = timing(40);
  slow.errors.pop_back();
  store_.put_baseline(slow);
  EXPECT_THAT(store_.baselines(ids_.problem, ids_.device), ElementsAre(fast, slow));
  EXPECT_EQ(store_.counts().baselines, 2);
}

TEST_F(StoreTest, ListsAndCountsShowWhatIsThere) {
  add(0, 10);
  add(failed_trial(ids_, 1, TrialStatus::crashed, "x"));
  const StoreCounts counts = store_.counts();
  EXPECT_EQ(counts.trials, 2);
  EXPECT_EQ(counts.trials_ok, 1);
  EXPECT_EQ(counts.sessions, 1);
  ASSERT_EQ(store_.problems().size(), 1u);
  EXPECT_EQ(store_.problems()[0].record, problem());
  EXPECT_EQ(store_.devices().size(), 1u);
  EXPECT_EQ(store_.environments().size(), 1u);
  EXPECT_EQ(store_.families().size(), 1u);
}

}  // namespace
}  // namespace knobwise::testing
