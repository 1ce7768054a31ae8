// Machine code from a database: run when it may be and is whole, compiled otherwise.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include "tests/runtime/fixture.h"

namespace knobwise::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kLine = "conv2d n=1 c=2 h=16 w=16 k=2 r=3 s=3 pad=1";

class StoredCode : public RuntimeTest {
 protected:
  /// A database with a trial and its code.
  std::filesystem::path with_code(const std::string& name, const TrialSpec& spec) {
    const std::filesystem::path path = database(name, {spec});
    Store::open(path, Store::Mode::read_write)
        .put_code(
            1, machine().tiled.instantiate(Problem::parse(kLine), spec.configuration, machine().info).source);
    return path;
  }

  PlanDescription plan(const std::filesystem::path& path, bool trusted) {
    DispatcherOptions chosen = options({path});
    if (trusted) chosen.trusted = {path};
    return Dispatcher(chosen).plan(kLine).description();
  }

  TrialSpec spec_{.problem = kLine, .configuration = fake_configuration(4)};
};

TEST_F(StoredCode, OfATrustedDatabaseIsRunWithoutCompilingOrVerifying) {
  const std::filesystem::path path = with_code("a.db", spec_);
  machine().version_questions = 0;
  const PlanDescription description = plan(path, true);
  EXPECT_EQ(description.provenance, Provenance::exact);
  EXPECT_TRUE(description.stored_code);
  EXPECT_EQ(machine().compiles, 0);
  EXPECT_EQ(machine().verifications, 0);
  EXPECT_EQ(machine().version_questions, 0) << "asking a compiler its version takes long";
}

TEST_F(StoredCode, ComputesTheRightOutput) {
  const std::filesystem::path path = with_code("a.db", spec_);
  DispatcherOptions chosen = options({path});
  chosen.trusted = {path};
  Dispatcher dispatcher(chosen);
  Plan plan = dispatcher.plan(kLine);
  Operands operands(plan.problem());
  plan.prepare(operands.parameter_buffers());
  plan.run(operands.input, operands.output);
  EXPECT_LT(largest_error(operands), 1e-5);
}

TEST_F(StoredCode, ServesAMachineWithoutACompiler) {
  const std::filesystem::path path = with_code("a.db", spec_);
  machine().compiler_version = "";
  EXPECT_TRUE(plan(path, true).stored_code);
  EXPECT_EQ(machine().verifications, 0);
}

TEST_F(StoredCode, ForTheProcessorIsNotRunUnlessTheDatabaseIsTrusted) {
  const PlanDescription description = plan(with_code("a.db", spec_), false);
  EXPECT_FALSE(description.stored_code);
  EXPECT_EQ(description.provenance, Provenance::exact);
  EXPECT_EQ(machine().compiles, 1);
  EXPECT_THAT(description.notes, Contains(HasSubstr("not named as trusted")));
}

TEST_F(StoredCode, TrustInOneDatabaseIsNoTrustInAnother) {
  const std::filesystem::path mine = database("mine.db", {}), theirs = with_code("theirs.db", spec_);
  DispatcherOptions chosen = options({mine, theirs});
  chosen.trusted = {mine};
  EXPECT_FALSE(Dispatcher(chosen).plan(kLine).description().stored_code);
}

TEST_F(StoredCode, ThatIsDamagedIsNeverLoaded) {
  const std::filesystem::path path = with_code("a.db", spec_);
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("UPDATE machine_code SET image = x'0011'");
  const PlanDescription description = plan(path, true);
  EXPECT_FALSE(description.stored_code);
  EXPECT_EQ(machine().compiles, 1);
  EXPECT_THAT(description.notes, Contains(HasSubstr("damaged")));
}

TEST_F(StoredCode, ThatDoesNotLoadIsCompiled) {
  const std::filesystem::path path = database("a.db", {spec_});
  Store::open(path, Store::Mode::read_write).put_code(1, "for another machine");
  const PlanDescription description = plan(path, true);
  EXPECT_FALSE(description.stored_code);
  EXPECT_EQ(machine().compiles, 1);
  EXPECT_THAT(description.notes, Contains(HasSubstr("this is no code")));
}

TEST_F(StoredCode, OfAnotherSourceOrModelIsNotRun) {
  spec_.hash = "v0";
  const std::filesystem::path old = with_code("old.db", spec_);
  DispatcherOptions chosen = options({old});
  chosen.trusted = {old};
  EXPECT_FALSE(Dispatcher(chosen).plan(kLine, {.allow_stale = true}).description().stored_code);
  spec_.hash = "v1";
  spec_.device = machine().info;
  spec_.device->name = "Test Card B";
  const PlanDescription description = plan(with_code("twin.db", spec_), true);
  EXPECT_FALSE(description.stored_code);
  EXPECT_EQ(description.device_match, "same architecture and size");
}

TEST_F(StoredCode, UnderAnotherDriverIsVerifiedAgain) {
  const std::filesystem::path path = with_code("a.db", spec_);
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
      .exec("UPDATE environments SET driver_version = 'older'");
  EXPECT_TRUE(plan(path, true).stored_code);
  EXPECT_GT(machine().verifications, 0);
}

class Layers : public RuntimeTest {};

TEST_F(Layers, TheNearestDeviceAnswersAndTheDescriptionSaysWhich) {
  const TrialSpec mine{.problem = kLine, .configuration = fake_configuration(4)};
  TrialSpec twin = mine, slice = mine;
  twin.device = slice.device = machine().info;
  twin.device->name = "Test Card B", twin.configuration = fake_configuration(8);
  slice.device->name = "Test Card A MIG", slice.device->multiprocessors = 1;
  slice.configuration = fake_configuration(16);
  const auto twin_db = database("twin.db", {twin}), slice_db = database("slice.db", {slice});
  // The layers' order does not beat the nearer device.
  const auto describe = [&](std::vector<std::filesystem::path> layers) {
    return Dispatcher(options(std::move(layers))).plan(kLine).description();
  };
  EXPECT_EQ(describe({slice_db, twin_db, database("mine.db", {mine})}).device_match, "same device");
  EXPECT_EQ(describe({slice_db, twin_db}).device_match, "same architecture and size");
  const PlanDescription far = describe({slice_db});
  EXPECT_EQ(far.device_match, "same architecture");
  EXPECT_EQ(far.provenance, Provenance::nearest);
  EXPECT_EQ(far.based_on, kLine);
  EXPECT_EQ(far.based_on_device, "Test Card A MIG");
  EXPECT_EQ(describe({}).device_match, "");
}

TEST_F(Layers, DamageInOneLeavesTheOthersServing) {
  const TrialSpec spec{.problem = kLine, .configuration = fake_configuration(4)};
  const auto bad = database("bad.db", {spec}), good = database("good.db", {spec});
  SQLite::Database(bad.string(), SQLite::OPEN_READWRITE)
      .exec("PRAGMA ignore_check_constraints = ON; UPDATE trials SET time_kind = 'sundial'");
  const PlanDescription description = Dispatcher(options({bad, good})).plan(kLine).description();
  EXPECT_EQ(description.database, good.string());
  EXPECT_THAT(description.notes, Contains(HasSubstr("bad.db")));
}

}  // namespace
}  // namespace knobwise::test
