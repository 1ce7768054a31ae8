// The order of the lookup and its provenance, through the public interface.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "kernels/code_cache.h"
#include "tests/runtime/fixture.h"
#include "tests/runtime/message_of.h"

namespace knobwise::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kProblem = "conv2d n=2 c=3 h=10 w=18 k=4 r=3 s=3 bias | relu";  // ow = 16

class LookupTest : public RuntimeTest {};

TEST_F(LookupTest, ExactAnswerIsTheFastestStoredTrialWithItsMeasuredFigures) {
  const auto path =
      database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(4), .time_us = 80},
                            {.problem = kProblem, .configuration = fake_configuration(8), .time_us = 60},
                            {.problem = kProblem, .configuration = fake_configuration(2), .time_us = 90}});
  Dispatcher dispatcher(options({path}));
  Plan plan = dispatcher.plan(kProblem);
  const PlanDescription& description = plan.description();
  EXPECT_EQ(description.provenance, Provenance::exact);
  EXPECT_EQ(description.configuration, fake_configuration(8));
  EXPECT_EQ(description.family, "tiled");
  EXPECT_EQ(description.predicted_us, 60);
  EXPECT_EQ(description.error->rel_fro, 1e-7);
  EXPECT_EQ(description.database, path.string());
  EXPECT_FALSE(description.stale);
  EXPECT_EQ(machine().verifications, 0) << "the tuner verified it already";
}

TEST_F(LookupTest, EveryStepRunsRightly) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  Dispatcher dispatcher(options({path}));
  const std::pair<const char*, Provenance> cases[] = {
      {kProblem, Provenance::exact},
      {"conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias | relu", Provenance::nearest},
      {"conv1d n=2 c=3 w=34 k=4 s=3", Provenance::family_default}};
  for (const auto& [line, provenance] : cases) {
    Plan plan = dispatcher.plan(line);
    EXPECT_EQ(plan.description().provenance, provenance) << line;
    Operands operands(plan.problem());
    plan.prepare(operands.parameter_buffers());
    plan.run(operands.input, operands.output);
    EXPECT_LT(largest_error(operands), 1e-5) << line;
  }
}

// The product of the dimensions calls 64x1x1 and 4x4x4 equal, and would prefer 4x4x8 for 128x1x1.
TEST_F(LookupTest, NearestIsJudgedPerDimensionNotByTheProduct) {
  const auto line = [](int d, int h, int w) {
    return "conv3d n=1 c=2 d=" + std::to_string(d) + " h=" + std::to_string(h) + " w=" + std::to_string(w) +
           " k=2 t=1 r=1 s=1";
  };
  const auto path =
      database("tuned.db", {{.problem = line(4, 4, 4), .configuration = fake_configuration(1, 0)},
                            {.problem = line(4, 4, 8), .configuration = fake_configuration(1, 64)},
                            {.problem = line(64, 1, 1), .configuration = fake_configuration(1, 4096)}});
  Dispatcher dispatcher(options({path}));
  const Plan flat = dispatcher.plan(line(128, 1, 1));
  EXPECT_EQ(flat.description().provenance, Provenance::nearest);
  EXPECT_EQ(flat.description().based_on, Problem::parse(line(64, 1, 1)).to_string());
  const Plan cube = dispatcher.plan(line(5, 4, 4));
  EXPECT_EQ(cube.description().based_on, Problem::parse(line(4, 4, 4)).to_string());
  const Plan exact = dispatcher.plan(line(64, 1, 1));
  EXPECT_EQ(exact.description().provenance, Provenance::exact);
  EXPECT_EQ(exact.description().configuration, fake_configuration(1, 4096));
}

TEST_F(LookupTest, NearestNeverBridgesTypeRankLayoutBiasOrEpilogue) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  Dispatcher dispatcher(options({path}));
  for (const char* line :
       {"conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 | relu", "conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias",
        "conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 layout=nhwc bias | relu",
        "conv1d n=2 c=3 w=34 k=4 s=3 bias | relu"}) {
    EXPECT_EQ(dispatcher.plan(line).description().provenance, Provenance::family_default) << line;
  }
}

// Tile 8 divides 16 but not 12: the neighbour's configuration is not valid for this problem.
TEST_F(LookupTest, NearestMustBeValidForThisProblem) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)},
                                          {.problem = "conv2d n=2 c=3 h=10 w=66 k=4 r=3 s=3 bias | relu",
                                           .configuration = fake_configuration(4)}});
  Dispatcher dispatcher(options({path}));
  const Plan plan = dispatcher.plan("conv2d n=2 c=3 h=10 w=14 k=4 r=3 s=3 bias | relu");  // ow = 12
  EXPECT_EQ(plan.description().provenance, Provenance::nearest);
  EXPECT_EQ(plan.description().configuration, fake_configuration(4));
}

TEST_F(LookupTest, NearestIsVerifiedOnFirstUseAndAWrongOneIsPassedOver) {
  const auto path = database(
      "tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8, 0, true, 0, "wrong")},
                   {.problem = "conv2d n=2 c=3 h=10 w=66 k=4 r=3 s=3 bias | relu",
                    .configuration = fake_configuration(4)}});
  Dispatcher dispatcher(options({path}));
  const Plan plan = dispatcher.plan("conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias | relu");
  EXPECT_EQ(plan.description().configuration, fake_configuration(4));
  EXPECT_EQ(plan.description().provenance, Provenance::nearest);
  ASSERT_TRUE(plan.description().error);
  EXPECT_GT(plan.description().error->checked, 0);
  EXPECT_THAT(plan.description().notes, Contains(HasSubstr("error is too large")));
  const int verifications = machine().verifications;
  dispatcher.plan("conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias | relu");
  EXPECT_EQ(machine().verifications, verifications) << "once is enough";
}

TEST_F(LookupTest, AKernelThatFailsCostsItsStepOnly) {
  for (const char* fault : {"throws", "does_not_compile"}) {
    const auto path =
        database(std::string(fault) + ".db",
                 {{.problem = kProblem, .configuration = fake_configuration(8, 0, true, 0, fault)}});
    Dispatcher dispatcher(options({path}));
    const Plan plan = dispatcher.plan("conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias | relu");
    EXPECT_EQ(plan.description().provenance, Provenance::family_default) << fault;
  }
}

TEST_F(LookupTest, WithoutACompilerTheVendorAndThenTheReferenceServe) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  machine().compiler_version.clear();
  {
    Dispatcher dispatcher(options({path}));
    const Plan plan = dispatcher.plan(kProblem);
    EXPECT_EQ(plan.description().provenance, Provenance::vendor);
    EXPECT_THAT(plan.description().notes, Contains(HasSubstr("no compiler")));
  }
  machine().vendor.supported = false;
  Dispatcher dispatcher(options({path}));
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::reference);
}

TEST_F(LookupTest, StoredCodeNeedsNoSecondCompilation) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  Dispatcher(options({path})).plan(kProblem);
  EXPECT_EQ(machine().compiles, 1);
  Dispatcher(options({path})).plan(kProblem);
  EXPECT_EQ(machine().compiles, 1);
}

TEST_F(LookupTest, WhatTheTunerCompiledHereIsNotCompiledAgain) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  const DispatcherOptions chosen = options({path});
  // As a worker of the tuner compiles it.
  CodeCache(chosen.code_cache)
      .get_or_compile(
          machine().tiled.instantiate(Problem::parse(kProblem), fake_configuration(8), machine().info),
          machine().info);
  EXPECT_EQ(machine().compiles, 1);
  EXPECT_EQ(Dispatcher(chosen).plan(kProblem).description().provenance, Provenance::exact);
  EXPECT_EQ(machine().compiles, 1);
}

TEST_F(LookupTest, AVerificationHoldsForLaterProcessesUntilTheKernelChanges) {
  const auto verifications_of_a_new_dispatcher = [&] {
    const int before = machine().verifications;
    const Plan plan = Dispatcher(options({})).plan(kProblem);
    EXPECT_EQ(plan.description().provenance, Provenance::family_default);
    EXPECT_TRUE(plan.description().error);
    return machine().verifications - before;
  };
  EXPECT_GT(verifications_of_a_new_dispatcher(), 0);
  EXPECT_EQ(verifications_of_a_new_dispatcher(), 0);
  machine().tiled.hash = "v2";
  EXPECT_GT(verifications_of_a_new_dispatcher(), 0);
  machine().info.driver_version = "2.0";
  EXPECT_GT(verifications_of_a_new_dispatcher(), 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder() / "code")) {
    if (entry.path().extension() == ".json") std::filesystem::resize_file(entry.path(), 20);
  }
  EXPECT_GT(verifications_of_a_new_dispatcher(), 0) << "a damaged file counts as absent";
}

// Names alone decide neither way: a twin under another name is equivalent, half a card of the same name not.
TEST_F(LookupTest, DevicesAreComparedByTheirFigures) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  machine().info.name = "Test Card A PCIe";
  machine().info.ordinal = 3;
  EXPECT_EQ(Dispatcher(options({path})).plan(kProblem).description().provenance, Provenance::exact);
  EXPECT_EQ(decided_.back().based_on_device, "Test Card A");

  machine().info.name = "Test Card A";
  machine().info.multiprocessors = 4;
  EXPECT_EQ(Dispatcher(options({path})).plan(kProblem).description().provenance, Provenance::nearest);

  machine().info.architecture = "other-64";
  EXPECT_EQ(Dispatcher(options({path})).plan(kProblem).description().provenance, Provenance::family_default);
}

TEST_F(LookupTest, StaleResultsAreReportedAndSkippedUnlessAllowed) {
  const auto path =
      database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8), .hash = "v0"}});
  Dispatcher dispatcher(options({path}));
  const Plan fresh = dispatcher.plan(kProblem);
  EXPECT_EQ(fresh.description().provenance, Provenance::family_default);
  EXPECT_THAT(fresh.description().notes, Contains(HasSubstr("stale")));

  const int verifications = machine().verifications;
  const Plan stale = dispatcher.plan(kProblem, {.allow_stale = true});
  EXPECT_EQ(stale.description().provenance, Provenance::exact);
  EXPECT_TRUE(stale.description().stale);
  EXPECT_GT(machine().verifications, verifications) << "other code than the tuner verified";
}

// To ask a vendor's family its version, its library is loaded, which takes longer than the lookup.
TEST_F(LookupTest, StaleResultsAreSkippedWithoutAskingFamiliesThatAreSlower) {
  const auto path = database(
      "tuned.db",
      {{.problem = kProblem, .configuration = fake_configuration(8), .time_us = 1, .hash = "v0"},
       {.problem = kProblem, .configuration = fake_configuration(4), .time_us = 2, .hash = "v-1"},
       {.problem = kProblem, .configuration = fake_configuration(2), .time_us = 3},
       {.problem = kProblem, .configuration = fake_configuration(1), .time_us = 4, .family = "vendor"}});
  Dispatcher dispatcher(options({path}));
  const PlanDescription plan = dispatcher.plan(kProblem).description();
  EXPECT_EQ(plan.provenance, Provenance::exact);
  EXPECT_EQ(plan.configuration, fake_configuration(2));
  EXPECT_THAT(plan.notes, Contains(HasSubstr("2 faster results are stale")));
  EXPECT_EQ(machine().vendor.hash_questions, 0);
}

TEST_F(LookupTest, AnotherCompilerMeansAnotherVerification) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  machine().compiler_version = "testc 2.0";
  Dispatcher dispatcher(options({path}));
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::exact);
  EXPECT_GT(machine().verifications, 0);
}

TEST_F(LookupTest, ATimeOfZeroNeverEntersSoThatNothingDividesByIt) {
  EXPECT_THROW(
      database("zero.db", {{.problem = kProblem, .configuration = fake_configuration(8), .time_us = 0}}),
      std::invalid_argument);
  Dispatcher dispatcher(options({folder() / "zero.db"}));
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::family_default);
}

TEST_F(LookupTest, TheRequirementChoosesAmongStoredTrials) {
  const auto path = database(
      "tuned.db", {{.problem = kProblem,
                    .configuration = fake_configuration(8, 0, true, 0.0005),
                    .time_us = 10,
                    .error = 5e-4},
                   {.problem = kProblem, .configuration = fake_configuration(8, 4096), .time_us = 20},
                   {.problem = kProblem, .configuration = fake_configuration(4, 0, false), .time_us = 30},
                   {.problem = kProblem, .configuration = fake_configuration(2, 0), .time_us = 40}});
  Dispatcher dispatcher(options({path}));
  const auto chosen = [&](const Requirement& requirement) {
    return dispatcher.plan(kProblem, requirement).description().predicted_us;
  };
  EXPECT_EQ(chosen({}), 20);
  EXPECT_EQ(chosen({.accuracy = AccuracyRequirement::parse("tf32")}), 10);
  EXPECT_EQ(chosen({.max_workspace_bytes = 100}), 30);
  EXPECT_EQ(chosen({.max_workspace_bytes = 100, .deterministic = true}), 40);
  EXPECT_EQ(chosen({}), 20) << "each requirement keeps its own plan";
}

TEST_F(LookupTest, StepsThatAreNotAllowedAreNotTaken) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  Dispatcher dispatcher(options({path}));
  const auto provenance = [&](ProvenanceSet allow) {
    return dispatcher.plan(kProblem, {.allow = allow}).description().provenance;
  };
  EXPECT_EQ(provenance({Provenance::vendor, Provenance::reference}), Provenance::vendor);
  EXPECT_EQ(provenance({Provenance::reference}), Provenance::reference);
  EXPECT_EQ(provenance(ProvenanceSet::parse("family_default,vendor")), Provenance::family_default);
  try {
    dispatcher.plan("conv1d n=1 c=1 w=8 k=1 s=1", {.allow = {Provenance::exact}});
    FAIL() << "nothing is on record";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("conv1d n=1 c=1 w=8 k=1 s=1"));
    EXPECT_THAT(error.what(), HasSubstr("exact: nothing found"));
  }
}

TEST_F(LookupTest, TheReferenceMustMeetTheRequirementToo) {
  Dispatcher dispatcher(options({}));
  const auto plan = [&](const char* accuracy) {
    return dispatcher.plan(
        kProblem, {.accuracy = AccuracyRequirement::parse(accuracy), .allow = {Provenance::reference}});
  };
  EXPECT_EQ(plan("allclose").description().provenance, Provenance::reference);
  EXPECT_EQ(plan("rel_fro=1e-7").description().provenance, Provenance::reference);
  EXPECT_EQ(machine().verifications, 0) << "one rounding to f32 meets both";
  EXPECT_LT(plan("max_abs=1e-3").description().error.value().max_abs, 1e-3);
  for (const char* accuracy : {"rel_fro=0", "rel_fro=1e-9", "max_abs=1e-12"})
    EXPECT_THAT(message_of([&] { plan(accuracy); }), HasSubstr("its error is too large")) << accuracy;
}

TEST_F(LookupTest, FamiliesThatDoNotServeTheProblemSayWhy) {
  machine().tiled.supported = machine().vendor.supported = false;
  Dispatcher dispatcher(options({}));
  EXPECT_THAT(dispatcher.plan(kProblem).description().notes,
              ElementsAre("exact: nothing found", "nearest: nothing found",
                          "family_default: tiled: switched off", "vendor: vendor: switched off"));
}

// A lookup done once per process would reuse the first shape's kernel for all later ones.
TEST_F(LookupTest, EveryShapeGetsItsOwnKernel) {
  std::vector<TrialSpec> trials;
  const auto line = [](int i) { return "conv1d n=1 c=2 w=" + std::to_string(32 * i) + " k=2 s=1"; };
  for (int i = 1; i <= 4; ++i)
    trials.push_back({.problem = line(i), .configuration = fake_configuration(1 << i)});
  Dispatcher dispatcher(options({database("tuned.db", trials)}));
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 4; ++i) {
      Plan plan = dispatcher.plan(line(i));
      EXPECT_EQ(plan.description().configuration, fake_configuration(1 << i));
      Operands operands(plan.problem());
      plan.prepare(operands.parameter_buffers());
      plan.run(operands.input, operands.output);
      EXPECT_LT(largest_error(operands), 1e-5);
    }
  }
}

TEST_F(LookupTest, AProblemThatOnlyTheEpiloguesNumbersTellApartIsAnotherProblem) {
  Dispatcher dispatcher(options({}));
  for (const char* line : {"conv1d n=1 c=2 w=32 k=2 s=1 | div 2", "conv1d n=1 c=2 w=32 k=2 s=1 | div 4"}) {
    Plan plan = dispatcher.plan(line);
    Operands operands(plan.problem());
    plan.prepare(operands.parameter_buffers());
    plan.run(operands.input, operands.output);
    EXPECT_LT(largest_error(operands), 1e-5) << line;
  }
}

TEST_F(LookupTest, TheFirstDatabaseWithAnAnswerWins) {
  const auto user =
      database("user.db", {{.problem = kProblem, .configuration = fake_configuration(2), .time_us = 90}});
  const auto shipped =
      database("shipped.db", {{.problem = kProblem, .configuration = fake_configuration(8), .time_us = 10}});
  Dispatcher dispatcher(options({user, shipped}));
  EXPECT_EQ(dispatcher.plan(kProblem).description().database, user.string());
}

TEST_F(LookupTest, DatabasesThatCannotServeCostANoteAndNothingElse) {
  const auto missing = folder() / "missing.db", garbage = folder() / "garbage.db",
             zero = folder() / "zero.db";
  std::ofstream(garbage) << "this is not a database, and it is longer than a header of one hundred bytes, "
                            "so that nobody mistakes it for a short file";
  std::ofstream(zero).flush();
  const auto empty = database("empty.db", {});
  Dispatcher dispatcher(options({missing, garbage, zero, empty}));
  const std::vector<std::string> notes = dispatcher.notes();
  EXPECT_THAT(notes, Contains(HasSubstr("missing.db")));
  EXPECT_THAT(notes, Contains(HasSubstr("garbage.db")));
  EXPECT_THAT(notes, Contains(HasSubstr("empty.db")));
  for (const std::string& note : notes)
    EXPECT_THAT(note, testing::ContainsRegex("tune|another path")) << "names a remedy";
  EXPECT_FALSE(std::filesystem::exists(missing)) << "opening to read must not create";
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::family_default);
}

TEST_F(LookupTest, AStoredConfigurationThatIsNoneOfTheSpaceCostsANote) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("UPDATE trials SET configuration = '{}'");
  Dispatcher dispatcher(options({path}));
  const PlanDescription plan = dispatcher.plan(kProblem).description();
  EXPECT_EQ(plan.provenance, Provenance::family_default);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("the stored tiled {} is none for this problem")));
  // What a requirement leaves out is no news.
  const PlanDescription limited = dispatcher.plan(kProblem, {.max_workspace_bytes = 0}).description();
  EXPECT_THAT(limited.notes, Not(Contains(HasSubstr("is none for this problem"))));
}

TEST_F(LookupTest, ALockedDatabaseIsNotWaitedForLongAndOthersPlanMeanwhile) {
  const auto path = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  SQLite::Database holder(path.string(), SQLite::OPEN_READWRITE);
  holder.exec("PRAGMA journal_mode = DELETE");
  Dispatcher dispatcher(options({path}));
  EXPECT_THAT(dispatcher.notes(), IsEmpty());
  holder.exec("BEGIN EXCLUSIVE");
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::atomic<bool> refreshed{false};
  std::thread other([&] {
    dispatcher.refresh();
    refreshed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  dispatcher.plan("conv1d n=1 c=1 w=8 k=1 s=1", {.allow = {Provenance::reference}});
  EXPECT_FALSE(refreshed) << "the plan waited for it, or nothing is locked";
  other.join();
  EXPECT_LT(seconds(), 15);
  EXPECT_THAT(dispatcher.notes(), Contains(HasSubstr("tuned.db")));
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::family_default);
  holder.exec("ROLLBACK");
  dispatcher.refresh();
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::exact);
}

// A file that breaks the rules of its own schema: another database serves, and the note is there once.
TEST_F(LookupTest, DamageThatShowsInALookupCostsANoteAndNothingElse) {
  const std::pair<const char*, const char*> faults[] = {
      {"UPDATE trials SET family = 77", "no row 77 in families"},
      {"UPDATE trials SET environment = 77", "no row 77 in environments"},
      {"UPDATE trials SET configuration = '{'", "is not a JSON object"},
      {"UPDATE trials SET time_us = NULL", "has no time for trial 1"},
      {"UPDATE trials SET time_us = 0", "has no time for trial 1"},
      {"UPDATE trials SET time_us = 9e999", "has no time for trial 1"},
      {"DROP TABLE trial_errors", "trial_errors"}};
  const auto good = database("good.db", {{.problem = kProblem, .configuration = fake_configuration(4)}});
  for (const auto& [fault, note] : faults) {
    const auto bad = database(std::to_string(decided_.size()) + "bad.db",
                              {{.problem = kProblem, .configuration = fake_configuration(8), .time_us = 1}});
    SQLite::Database damaged(bad.string(), SQLite::OPEN_READWRITE);
    damaged.exec("PRAGMA foreign_keys = OFF");
    damaged.exec("PRAGMA ignore_check_constraints = ON");
    damaged.exec(fault);
    Dispatcher dispatcher(options({bad, good}));
    for (const bool limited : {false, true}) {
      const PlanDescription plan =
          dispatcher.plan(kProblem, {.max_workspace_bytes = limited ? std::optional(0u) : std::nullopt})
              .description();
      EXPECT_EQ(plan.database, good.string()) << fault;
      EXPECT_EQ(
          std::ranges::count_if(plan.notes, [&](const std::string& n) { return n.find(note) != n.npos; }), 1)
          << fault << plan.to_json();
    }
    const PlanDescription near =
        dispatcher.plan("conv2d n=2 c=3 h=10 w=34 k=4 r=3 s=3 bias | relu").description();
    EXPECT_EQ(near.database, good.string()) << fault << near.to_json();
  }
}

TEST_F(LookupTest, RelativePathsAreThoseOfTheFolderInWhichItWasMade) {
  database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder());
  DispatcherOptions relative = options({"tuned.db"});
  relative.code_cache = "code";
  Dispatcher dispatcher(std::move(relative));
  std::filesystem::create_directory("elsewhere");
  std::filesystem::current_path("elsewhere");
  dispatcher.refresh();
  const PlanDescription found = dispatcher.plan(kProblem).description();
  dispatcher.plan("conv1d n=1 c=1 w=8 k=1 s=1");
  const bool empty = std::filesystem::is_empty(".");
  std::filesystem::current_path(before);
  EXPECT_EQ(found.provenance, Provenance::exact);
  EXPECT_EQ(found.database, (folder() / "tuned.db").string());
  EXPECT_TRUE(empty) << "compiled code belongs where it was";
}

TEST_F(LookupTest, RefreshSeesNewResultsAndLeavesOldPlansAlone) {
  const auto path = database("tuned.db", {});
  Dispatcher dispatcher(options({path}));
  Plan before = dispatcher.plan(kProblem);
  database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::family_default);
  dispatcher.refresh();
  EXPECT_EQ(dispatcher.plan(kProblem).description().provenance, Provenance::exact);
  EXPECT_THAT(dispatcher.notes(), IsEmpty());

  Operands operands(before.problem());
  before.prepare(operands.parameter_buffers());
  before.run(operands.input, operands.output);
  EXPECT_LT(largest_error(operands), 1e-5);
}

TEST_F(LookupTest, EachDecisionIsReportedOnce) {
  Dispatcher dispatcher(options({}));
  for (int i = 0; i < 3; ++i) {
    dispatcher.plan(kProblem);
    dispatcher.plan("conv1d n=1 c=1 w=8 k=1 s=1");
  }
  ASSERT_EQ(decided_.size(), 2u);
  EXPECT_THAT(decided_[0].to_string(), HasSubstr("family_default"));
  EXPECT_THAT(decided_[0].to_json(), HasSubstr("\"provenance\":\"family_default\""));
}

TEST_F(LookupTest, ARefreshReportsOnlyWhatItChanged) {
  const auto path = database("tuned.db", {});
  Dispatcher dispatcher(options({path}));
  const auto plan_both = [&] {
    dispatcher.plan(kProblem);
    dispatcher.plan("conv1d n=1 c=1 w=8 k=1 s=1");
  };
  plan_both();
  dispatcher.refresh();
  plan_both();
  EXPECT_EQ(decided_.size(), 2u);
  database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)}});
  dispatcher.refresh();
  plan_both();
  ASSERT_EQ(decided_.size(), 3u);
  EXPECT_EQ(decided_.back().provenance, Provenance::exact);
}

TEST_F(LookupTest, APlanTellsTheProblemThatItWasAskedFor) {
  Dispatcher dispatcher(options({}));
  for (const char* line :
       {"conv1d n=1 c=1 w=8 k=1 s=1",
        "conv2d n=2 c=6 h=17 w=300 k=4 r=3 s=2 stride=2x1 pad=1x3 dilation=3x1 groups=2",
        "conv3d n=1 c=2 d=5 h=6 w=7 k=4 t=2 r=1 s=3 layout=nhwc bias | div 2 | clamp -0.5 6 | residual | "
        "relu",
        "conv2d n=1 c=4 h=9 w=9 k=8 r=3 s=3 | mean height | softmax channel",
        "conv2d n=1 c=4 h=9 w=9 k=8 r=3 s=3 bias | group_norm groups=4 eps=1e-3 affine | leaky_relu 0.125"}) {
    const Problem problem = Problem::parse(line);
    EXPECT_EQ(dispatcher.plan(line).problem(), problem) << line;
  }
}

TEST_F(LookupTest, APlanTellsWhatWasReportedOfIt) {
  const auto tuned = database("tuned.db", {{.problem = kProblem, .configuration = fake_configuration(8)},
                                           {.problem = "conv2d n=4 c=3 h=10 w=18 k=4 r=3 s=3 bias | relu",
                                            .configuration = fake_configuration(4)}});
  Dispatcher dispatcher(options({folder() / "missing.db", tuned}));
  for (const char* step : {"exact", "nearest", "family_default", "vendor", "reference"}) {
    const Plan plan = dispatcher.plan(kProblem, {.allow = ProvenanceSet::parse(step)});
    EXPECT_EQ(plan.description().to_json(), decided_.back().to_json());
    EXPECT_THAT(decided_.back().to_json(), HasSubstr(step));
  }
}

TEST_F(LookupTest, EveryDifferenceBetweenRequirementsCounts) {
  const Requirement requirements[] = {{},
                                      {.accuracy = AccuracyRequirement{1, {}, {}}},
                                      {.accuracy = AccuracyRequirement{{}, 1, {}}},
                                      {.accuracy = AccuracyRequirement{{}, {}, 1}},
                                      {.accuracy = AccuracyRequirement{}},
                                      {.max_workspace_bytes = 0},
                                      {.max_workspace_bytes = 1},
                                      {.allow = {Provenance::exact}},
                                      {.deterministic = true},
                                      {.allow_stale = true}};
  std::set<std::string> keys;
  for (const Requirement& requirement : requirements)
    keys.emplace(PlanKey(Problem::parse(kProblem), requirement).bytes());
  EXPECT_EQ(keys.size(), std::size(requirements));
}

TEST_F(LookupTest, WithoutACallbackALineOnStandardErrorSaysItOnce) {
  DispatcherOptions chosen = options({folder() / "missing.db"});
  chosen.on_new_plan = {};
  testing::internal::CaptureStderr();
  {
    Dispatcher dispatcher(chosen);
    for (int i = 0; i < 3; ++i) {
      dispatcher.plan(kProblem);
      dispatcher.refresh();
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log, HasSubstr("missing.db"));
  EXPECT_THAT(log, HasSubstr("family_default"));
}

TEST_F(LookupTest, WhatNobodySupportsIsSaidNotCrashed) {
  Dispatcher dispatcher(options({}));
  EXPECT_THROW(dispatcher.plan("conv2d n=2 c=3 h=10 w=18 k=4 r=3 s=3 dtype=f16"), UserError);
  EXPECT_THROW(dispatcher.plan("conv2d n=2 c=3 q=4"), UserError);
  DispatcherOptions wrong = options({});
  wrong.device = "cuda:7";
  EXPECT_THROW(Dispatcher{wrong}, UserError);
}

TEST(ProvenanceSetTest, ParsesNames) {
  EXPECT_EQ(ProvenanceSet::parse("all"), ProvenanceSet::all());
  EXPECT_EQ(ProvenanceSet::parse("exact,reference"),
            (ProvenanceSet{Provenance::exact, Provenance::reference}));
  EXPECT_THROW(ProvenanceSet::parse("exact,closest"), UserError);
  EXPECT_THROW(ProvenanceSet::parse(""), UserError);
}

}  // namespace
}  // namespace knobwise::test
