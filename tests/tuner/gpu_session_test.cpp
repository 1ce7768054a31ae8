// Whole sessions on a GPU: bad kernels, several devices, and the same winner every time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>

#include "db/store.h"
#include "kernels/ceilings.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/device.h"
#include "tests/tuner/narrowed_family.h"
#include "tests/tuner/processes.h"
#include "tests/tuner/self_worker.h"
#include "tests/tuner/silent.h"
#include "tuner/session.h"

namespace knobwise::test {
namespace {

// Statements of `scale(x, w, y)`; y has N elements, `i` is this thread's.
std::string body(const std::string& fault) {
  const std::string right = "if (i < N) y[i] = x[i] * w[0];";
  if (fault == "wrong") return "if (i < N) y[i] = x[i] * w[0] + 0.5f;";
  if (fault == "nan") return "if (i < N) y[i] = i == N / 2 ? 0.0f / (w[0] - w[0]) : x[i] * w[0];";
  if (fault == "unwritten") return "if (i < N - 1) y[i] = x[i] * w[0];";
  if (fault == "reads_behind") return "if (i < N) y[i] = x[i] * w[0] + 0 * x[N];";
  if (fault == "reads_before") return "if (i < N) y[i] = x[i] * w[0] + 0 * x[-1];";
  if (fault == "writes_before") return right + " if (i == 0) y[-1] = 1;";
  // A hundred values that live across a barrier: more registers than a block of 1024 threads can have.
  if (fault == "registers")
    return "float v[100];\n#pragma unroll\nfor (int j = 0; j < 100; ++j) v[j] = x[(i * 7 + j) % N];\n"
           "__syncthreads();\nfloat s = 0;\n#pragma unroll\n"
           "for (int j = 0; j < 100; ++j) s += v[j] * v[99 - j];\nif (i < N) y[i] = x[i] * w[0] + 0 * s;";
  if (fault == "writes_behind") return "if (i <= N) y[i] = x[i < N ? i : 0] * w[0];";
  if (fault == "illegal_address") return right + " if (i == 0) *(volatile int*)16 = 1;";
  if (fault == "traps") return right + " if (i == 0) __trap();";
  if (fault == "loops") return right + " while (*(volatile float*)w != 12345.0f) {}";
  if (fault == "does_not_compile") return "this is no C++;";
  return right;
}

/// Scales its input by one weight (a conv1d with one channel and one tap), rightly or with the fault that the
/// knob `fault` names; the knob `variant` makes two of each.
class GpuFaultFamily : public KernelFamily {
 public:
  std::string_view name() const override { return "faulty"; }
  Backend backend() const override { return Backend::cuda; }
  std::optional<std::string> unsupported_reason(const Problem& problem, const DeviceInfo&) const override {
    if (problem.rank == 1 && problem.c == 1 && problem.k == 1 && problem.fan_in() == 1) return {};
    return "only scales one channel";
  }
  std::string_view space_json() const override {
    return R"({"General": {"BenchmarkName": "faulty"}, "ConfigurationSpace": {"TuningParameters": [
      {"Name": "fault", "Type": "string", "Values": ["none", "does_not_compile", "wrong", "nan", "unwritten", "reads_behind",
       "reads_before", "writes_behind", "writes_before", "illegal_address", "traps", "loops", "shared_memory",
       "threads", "registers", "grid"], "Default": "none"},
      {"Name": "variant", "Type": "int", "Values": [0, 1], "Default": 0},
      {"Name": "precision", "Type": "string", "Values": ["fp32"], "Default": "fp32"}]}})";
  }
  std::string source_hash() const override { return "test"; }
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo&) const override {
    const std::string fault = configuration.text("fault");
    const std::int64_t elements = problem.output_extents().elements();
    KernelInstance instance;
    instance.source = fmt::format(
        "constexpr long long N = {};\n"
        "extern \"C\" __global__ void scale(const float* x, const float* w, float* y) {{\n"
        "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n  {}\n}}\n// variant {}\n",
        elements, body(fault), configuration.integer("variant"));
    const std::uint32_t threads = fault == "threads" ? 2048 : fault == "registers" ? 1024 : 256;
    instance.run.push_back(
        {"scale",
         {static_cast<std::uint32_t>(elements / 256 + 1), fault == "grid" ? 100'000u : 1u, 1},
         {threads, 1, 1},
         fault == "shared_memory" ? 1u << 20 : 0u,
         {{Slot::input, 0}, {Slot::parameter, 0}, {Slot::output, 0}}});
    return instance;
  }
};

const std::set<std::string> kFreeKnobs = {"stages", "tiles_per_block", "weights_source", "min_blocks"};

void register_families() {
  static const GpuFaultFamily faulty;
  static const NarrowedFamily narrowed(*find_family(Backend::cuda, "direct_conv"), kFreeKnobs, "none");
  register_family(faulty);
  register_family(narrowed);
}

class GpuSession : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> notes;
    devices_ = cuda_device_infos(&notes);
    if (devices_.empty()) GTEST_SKIP() << (notes.empty() ? "no CUDA device" : notes.front());
    adopt_orphans();
    std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("KNOBWISE_CACHE", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    EXPECT_EQ(left_behind(), std::set<pid_t>());
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }

  SessionOptions options(const std::string& family) {
    SessionOptions options;
    options.executable = "/proc/self/exe";
    options.devices = {{"cuda:0", devices_.front()}};
    options.strategy = "exhaustive";
    options.families = {family};
    options.jobs = std::max(1, list_devices(nullptr).front().multiprocessors);
    options.run_limit_seconds = 5;
    options.accuracy = AccuracyRequirement::parse("allclose");
    return options;
  }

  std::vector<DeviceInfo> devices_;
  std::filesystem::path folder_;
};

TEST_F(GpuSession, EveryFaultIsRecordedWithItsReasonAndTheOthersAreRight) {
  const Problem problem = Problem::parse("conv1d n=1 c=1 w=1000 k=1 s=1");
  Store store = Store::open(folder_ / "faults.db", Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem, options("faulty"), listener).front();
  EXPECT_EQ(result.state, SessionState::finished);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Configuration::from_json(result.best->configuration).text("fault"), "none");

  const std::map<std::string, std::pair<TrialStatus, std::string>> expected = {
      {"none", {TrialStatus::ok, ""}},
      {"does_not_compile", {TrialStatus::compile_failed, "error"}},
      {"wrong", {TrialStatus::wrong_result, "relative error"}},
      {"nan", {TrialStatus::wrong_result, "NaN"}},
      {"unwritten", {TrialStatus::wrong_result, "never written"}},
      {"reads_behind", {TrialStatus::wrong_result, "NaN"}},
      {"reads_before", {TrialStatus::wrong_result, "NaN"}},
      {"writes_behind", {TrialStatus::out_of_bounds, "output"}},
      {"writes_before", {TrialStatus::out_of_bounds, "output"}},
      {"illegal_address", {TrialStatus::crashed, "ILLEGAL_ADDRESS"}},
      {"traps", {TrialStatus::crashed, "CUDA_ERROR"}},
      {"loops", {TrialStatus::timeout, "stopped after"}},
      {"shared_memory", {TrialStatus::out_of_resources, "shared memory"}},
      {"threads", {TrialStatus::out_of_resources, "threads"}},
      {"registers", {TrialStatus::out_of_resources, "at its register count"}},
      {"grid", {TrialStatus::launch_failed, "dimension y of the grid"}},
  };
  const DeviceState state = open_device("cuda:0")->state();
  std::map<std::string, int> seen;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    const std::string fault = Configuration::from_json(trial.configuration).text("fault");
    ++seen[fault];
    const auto& [status, reason] = expected.at(fault);
    EXPECT_EQ(trial.status, status) << fault << ": " << trial.reason;
    EXPECT_THAT(trial.reason, testing::HasSubstr(reason)) << fault;
    if (trial.status != TrialStatus::ok) continue;
    EXPECT_TRUE(trial.resources.registers && trial.resources.spill_bytes && trial.resources.stack_bytes);
    EXPECT_TRUE(trial.resources.static_shared_bytes && trial.resources.dynamic_shared_bytes);
    EXPECT_GT(trial.resources.occupancy.value_or(0), 0);
    EXPECT_THAT(trial.extra, testing::HasSubstr("\"waves\":"));
    EXPECT_EQ(trial.clock_khz.has_value(), state.clock_khz.has_value());
    EXPECT_EQ(trial.temperature_c.has_value(), state.temperature_c.has_value());
    EXPECT_FALSE(trial.timing->samples.empty());
  }
  EXPECT_EQ(seen.size(), expected.size());
  for (const auto& [fault, count] : seen) EXPECT_EQ(count, 2) << fault;
}

TEST_F(GpuSession, ASessionKilledWhileItSearchesGoesOnWhereItWas) {
  const Problem problem = Problem::parse("conv2d n=16 c=16 h=64 w=64 k=64 r=3 s=3 pad=1");
  const std::filesystem::path database = folder_ / "killed.db";
  SessionOptions session = options("narrowed");
  session.max_trials = 40;
  std::int64_t finished = 0;
  for (int round = 0; round < 6; ++round) {
    const pid_t pid = fork();
    if (pid == 0) {
      Store store = Store::open(database, Store::Mode::read_write);
      Silent listener;
      tune(store, problem, session, listener);
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500 + 700 * round));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    EXPECT_EQ(left_behind(), std::set<pid_t>()) << "round " << round;
    if (!std::filesystem::exists(database)) continue;
    const std::int64_t now = Store::open(database, Store::Mode::read_write).counts().trials;
    EXPECT_GE(now, finished);
    finished = now;
  }
  EXPECT_GT(finished, 0);
  Store store = Store::open(database, Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, problem, session, listener).front();
  EXPECT_EQ(result.reused, finished);
  const BoundSpace space = bind_space(*find_family(Backend::cuda, "narrowed"), problem, devices_.front());
  EXPECT_EQ(result.evaluated + result.reused,
            std::min<std::int64_t>(40, static_cast<std::int64_t>(space.size())));
  for (const auto& [id, device] : store.devices()) {
    for (const TrialRecord& trial : store.trials(*store.find_problem(problem.to_string()), id))
      EXPECT_NE(trial.status, TrialStatus::crashed) << trial.reason;
  }
}

TEST_F(GpuSession, ThreeExhaustiveSearchesFindTheSameSpeed) {
  const Problem problem =
      Problem::parse("conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01");
  std::vector<double> best;
  for (int round = 0; round < 3; ++round) {
    Store store = Store::open(folder_ / fmt::format("{}.db", round), Store::Mode::read_write);
    Silent listener;
    SessionOptions session = options("narrowed");
    session.seed = static_cast<std::uint64_t>(round);
    const SessionResult result = tune(store, problem, session, listener).front();
    ASSERT_TRUE(result.best);
    best.push_back(result.best->timing->time_us);
    std::cout << fmt::format(
        "round {}: {} trials, {} failed, {:.1f} trials/s, device busy {:.0f}%, best {:.2f} us, {} samples, "
        "{} kHz, {} C\n  {}\n",
        round, result.evaluated, result.failed, static_cast<double>(result.evaluated) / result.seconds,
        100 * result.busy_share, best.back(), result.best->timing->samples.size(),
        result.best->clock_khz.value_or(0), result.best->temperature_c.value_or(0),
        result.best->configuration);
  }
  const auto [low, high] = std::minmax_element(best.begin(), best.end());
  std::cout << fmt::format("the winners' times differ by {:.2f}%\n", 100 * (*high / *low - 1));
  EXPECT_LT(*high / *low, 1.02);
}

TEST_F(GpuSession, VerifyingATrialCostsLessThanCompilingIt) {
  const Problem problem =
      Problem::parse("conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01");
  Store store = Store::open(folder_ / "v.db", Store::Mode::read_write);
  Silent listener;
  SessionOptions session = options("narrowed");
  session.max_trials = 8;
  const SessionResult result = tune(store, problem, session, listener).front();
  double compile = 0, verify = 0;
  int later = 0;
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    if (trial.status != TrialStatus::ok || later++ == 0) continue;  // the first computes the reference
    compile += *trial.compile_seconds;
    verify += *trial.verify_seconds;
  }
  std::cout << fmt::format("compiling {:.3f} s, verifying {:.3f} s a trial\n", compile / (later - 1),
                           verify / (later - 1));
  EXPECT_LT(verify, compile);
}

TEST_F(GpuSession, TwoDevicesOfOneKindDivideTheWork) {
  if (devices_.size() < 2 || devices_[0].name != devices_[1].name) GTEST_SKIP() << "one device";
  const Problem problem = Problem::parse("conv2d n=16 c=16 h=64 w=64 k=64 r=3 s=3 pad=1");
  Store store = Store::open(folder_ / "two.db", Store::Mode::read_write);
  Silent listener;
  SessionOptions session = options("narrowed");
  session.devices = {{"cuda:0", devices_[0]}, {"cuda:1", devices_[1]}};
  const std::vector<SessionResult> results = tune(store, problem, session, listener);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].device, "cuda:0,cuda:1");
  EXPECT_TRUE(results[0].best);
}

// No GPU of 2017 or later is outside these bounds, and no published figure may be exceeded by much.
TEST_F(GpuSession, CeilingsArePlausible) {
  const auto device = open_device("cuda:0");
  const MeasuredCeilings ceilings = measure_ceilings(*device);
  for (const auto& [resource, rate] : ceilings) std::cout << fmt::format("{:<8}{:.4g}\n", resource, rate);
  EXPECT_GT(ceilings.at("memory"), 1e11);
  EXPECT_LT(ceilings.at("memory"), 1e13);
  EXPECT_GT(ceilings.at("fp32"), 2e12);
  EXPECT_LT(ceilings.at("fp32"), 2e14);
  EXPECT_GT(ceilings.at("tf32"), 0.9 * ceilings.at("fp32"));
  EXPECT_GT(ceilings.at("fp16"), 1.5 * ceilings.at("tf32"));
  EXPECT_NEAR(ceilings.at("bf16") / ceilings.at("fp16"), 1, 0.2);
}

}  // namespace
}  // namespace knobwise::test

int main(int argc, char** argv) {
  if (!knobwise::families(knobwise::Backend::cuda).empty()) knobwise::test::register_families();
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
