// Every design that is weighed by hand is a valid configuration, and no two are confused.
#include "bench/weighed_designs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "bench/plain_conv_family.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "db/identifiers.h"
#include "db/store.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/direct_conv_family.h"
#include "kernels/cuda/nvrtc.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tests/tuner/command.h"

namespace knobwise {
namespace {

using testing::HasSubstr;

constexpr const char* kFile = "bench/weighed_designs.json";

class WeighedDesigns : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    register_family(direct_conv_designs_family());
    register_family(plain_conv_family());
  }

  std::vector<WeighedProblem> problems_ = read_weighed_designs(kFile);
  DeviceInfo device_ = cuda_target_info(90);
};

bool has_knobs(const Configuration& configuration, const WeighedDesign& design) {
  return std::all_of(design.knobs.begin(), design.knobs.end(), [&](const auto& knob) {
    const Value* value = configuration.find(knob.first);
    return value && *value == knob.second;
  });
}

TEST_F(WeighedDesigns, AreThoseOfTheFiveReferenceProblems) {
  std::ifstream file("bench/reference_problems.txt");
  std::vector<Problem> expected;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#')) expected.push_back(Problem::parse(line));
  ASSERT_EQ(problems_.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(problems_[i].problem, expected[i]);
    EXPECT_GE(problems_[i].designs.size(), 6u);
  }
}

TEST_F(WeighedDesigns, AreValidConfigurations) {
  for (const WeighedProblem& problem : problems_) {
    std::map<std::string, BoundSpace> spaces;
    for (const WeighedDesign& design : problem.designs) {
      SCOPED_TRACE(problem.label + " " + design.name);
      // cuDNN itself is not here.
      if (design.family == "cudnn") continue;
      try {
        const Configuration configuration = design_configuration(design, problem.problem, device_);
        EXPECT_TRUE(has_knobs(configuration, design)) << configuration.to_json();
        const KernelFamily* family = find_family(Backend::cuda, design.family);
        if (!spaces.contains(design.family))
          spaces.emplace(design.family, bind_space(*family, problem.problem, device_));
        EXPECT_EQ(spaces.at(design.family).violation(configuration), std::nullopt);
        EXPECT_FALSE(family->instantiate(problem.problem, configuration, device_).run.empty());
        if (design.family == "direct_conv_designs") {
          EXPECT_TRUE(direct_conv_tiling(problem.problem, configuration).consistent());
        }
      } catch (const UserError& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

TEST_F(WeighedDesigns, AreToldApartByTheirKnobs) {
  for (const WeighedProblem& problem : problems_) {
    for (const WeighedDesign& design : problem.designs) {
      if (design.family == "cudnn") continue;
      const Configuration configuration = design_configuration(design, problem.problem, device_);
      for (const WeighedDesign& other : problem.designs) {
        if (&other == &design || other.family != design.family) continue;
        EXPECT_FALSE(has_knobs(configuration, other))
            << problem.label << ": " << design.name << " is also " << other.name;
      }
    }
  }
}

TEST_F(WeighedDesigns, Compile) {
  if (!nvrtc_problem().empty()) GTEST_SKIP() << nvrtc_problem();
  for (const WeighedProblem& problem : problems_) {
    for (const WeighedDesign& design : problem.designs) {
      if (design.family != "direct_conv_designs" && design.family != "plain_conv") continue;
      SCOPED_TRACE(problem.label + " " + design.name);
      const KernelInstance instance =
          find_family(Backend::cuda, design.family)
              ->instantiate(problem.problem, design_configuration(design, problem.problem, device_), device_);
      EXPECT_FALSE(cuda_compile(instance, device_).image.empty());
    }
  }
}

TEST_F(WeighedDesigns, WrittenByHandFitTheDevice) {
  for (const char* line : {"conv2d n=2 c=3 h=30 w=34 k=20 r=11 s=11 stride=4 pad=2 bias",
                           "conv3d n=1 c=3 d=9 h=8 w=10 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
                           "conv1d n=2 c=128 w=300 k=32 s=3 pad=1 | group_norm groups=4 eps=1e-5 affine"}) {
    const Problem problem = Problem::parse(line);
    const BoundSpace space = bind_space(plain_conv_family(), problem, device_);
    ASSERT_GT(space.size(), 1000u);
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      const Configuration configuration = space.configuration(i);
      const plain_conv::Geometry g = plain_conv_geometry(problem, configuration);
      // Besides, the sums of a norm take 128 bytes.
      ASSERT_LE(4 * g.shared_elements() + 128, device_.shared_bytes_per_block) << configuration.to_json();
      ASSERT_TRUE(g.threads() <= 1024 && g.threads() % 32 == 0) << configuration.to_json();
    }
  }
}

TEST_F(WeighedDesigns, WrittenByHandAreForPlainProblems) {
  for (const char* line :
       {"conv2d n=1 c=4 h=8 w=8 k=4 r=3 s=3 groups=2", "conv1d n=1 c=4 w=8 k=4 s=3 dtype=f16",
        "conv1d n=1 c=4 w=8 k=4 s=3 | residual", "conv1d n=1 c=4 w=800 k=4 s=200"}) {
    EXPECT_TRUE(plain_conv_family().unsupported_reason(Problem::parse(line), device_)) << line;
  }
}

// The page is made of what a database holds.
TEST_F(WeighedDesigns, ArePutBesideTheBestFound) {
  const test::TemporaryFolder folder;
  const WeighedProblem& problem = problems_[1];
  const auto add = [&](Store& store, std::int64_t session, const std::string& family,
                       const std::string& configuration, double time_us, double outside) {
    static std::int64_t order = 0;
    TrialRecord trial;
    trial.session = session, trial.device = 1, trial.environment = 1, trial.problem = 1;
    trial.family = store.intern_family({"cuda", family, "hash"});
    trial.configuration = configuration;
    trial.precision = "fp32";
    trial.timing = TimingRecord{.time_us = time_us,
                                .kind = TimeKind::median,
                                .min_us = time_us,
                                .mean_us = time_us,
                                .samples = {static_cast<float>(time_us)}};
    trial.errors = {
        ErrorRecord{.distribution = "uniform", .max_abs = 2e-6, .frac_outside = outside, .checked = 1}};
    trial.started = utc_now();
    trial.session_order = order++;
    store.insert_trial(trial);
  };
  {
    Store store = Store::open(folder / "a.db", Store::Mode::read_write);
    SessionRecord session;
    session.uuid = make_uuid();
    session.device = store.intern_device(device_record(device_));
    session.environment = store.intern_environment(environment_record(device_));
    session.problem = store.intern_problem(problem_record(problem.problem));
    session.strategy = "random";
    session.started = utc_now();
    const std::int64_t id = store.begin_session(session);
    for (std::size_t i : {0, 2}) {
      const WeighedDesign& design = problem.designs[i];
      add(store, id, design.family, design_configuration(design, problem.problem, device_).to_json(),
          i == 0 ? 600 : 500, 0);
    }
    add(store, id, "direct_conv", R"({"channels_per_thread":16})", 400, 0);
    add(store, id, "implicit_gemm", R"({"precision":"fp16"})", 90, 0.5);
  }
  const test::CommandResult page =
      test::finish(test::start_program("scripts/weighed-designs", {folder / "a.db"}, folder), folder);
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("Best found within 1e-4: 400 us, `direct_conv`"));
  EXPECT_THAT(page.out, HasSubstr("| a pixel a thread, all 64 channels | 600 us | 1.50x | 2.0e-06 |"));
  EXPECT_THAT(page.out, HasSubstr("channel tile in the grid | 500 us | 1.25x |"));
  EXPECT_THAT(page.out, HasSubstr("| the same, weights from L2 | not measured |"));
  EXPECT_THAT(page.out,
              HasSubstr("**64 or 8 channels a thread?** direct_conv, more than 8: 400 us, 1.25 times"));

  const test::CommandResult none =
      test::finish(test::start_program("scripts/weighed-designs", {folder / "b.db"}, folder), folder);
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("b.db"));
}

TEST_F(WeighedDesigns, AnUnknownKnobOrFamilyIsRefused) {
  WeighedDesign design{"one", "direct_conv_designs", "", {{"colour", Value(std::int64_t{1})}}};
  EXPECT_THROW(design_configuration(design, problems_[0].problem, device_), UserError);
  design.family = "indirect_conv";
  EXPECT_THROW(design_configuration(design, problems_[0].problem, device_), UserError);
  EXPECT_THROW(read_weighed_designs("bench/none.json"), UserError);
  EXPECT_THROW(read_weighed_designs("bench/reference_problems.txt"), UserError);
}

}  // namespace
}  // namespace knobwise
