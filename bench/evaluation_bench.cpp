// Trials a second of the pipeline against a sequential compile-then-measure loop: the same space and the same
// samples of each configuration, in fresh databases, with nothing compiled before.
//
//   evaluation_bench [device=best] [trials=32] [jobs=all cores] [sequential trials=as many] [problem]
//
// The device `simulated` needs neither a GPU nor idle processors: compiling sleeps half a second, measuring
// takes about 30 ms, which is what a GPU's configurations take. A kernel's configurations differ in a few
// knobs (tests/tuner/narrowed_family.h); every run compiles sources of its own, so that neither our cache nor
// NVRTC's answers. The time in which the devices are opened is given apart: it is paid once.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "db/store.h"
#include "kernels/code_cache.h"
#include "kernels/device.h"
#include "search_spaces/user_error.h"
#include "tests/tuner/narrowed_family.h"
#include "tests/tuner/self_worker.h"
#include "tests/tuner/temporary_folder.h"
#include "tuner/session.h"

namespace knobwise {
namespace {

using namespace std::chrono_literals;

// Samples of every configuration that is not hopeless, in both runs.
constexpr int kCpuSamples = 10, kGpuSamples = 20;
constexpr const char* kNonce = "KNOBWISE_BENCH_NONCE";

// Scales its input in a run of 6 ms; instantiating it for a compile worker takes half a second, and then the
// cache has the code.
class SimulatedFamily : public KernelFamily {
 public:
  explicit SimulatedFamily(bool compiles) : compiles_(compiles) {}

  std::string_view name() const override { return "simulated"; }
  Backend backend() const override { return Backend::cpu; }
  std::optional<std::string> unsupported_reason(const Problem& problem, const DeviceInfo&) const override {
    if (problem.c == 1 && problem.k == 1 && problem.fan_in() == 1) return {};
    return "only scales one channel";
  }
  std::string_view space_json() const override {
    return R"({"General": {"BenchmarkName": "simulated"}, "ConfigurationSpace": {"TuningParameters": [
        {"Name": "variant", "Type": "int", "Values": "[v for v in range(4096)]", "Default": 0},
        {"Name": "precision", "Type": "string", "Values": ["fp32"], "Default": "fp32"}]
}
})";
  }
  std::string source_hash() const override { return "bench"; }
  KernelInstance instantiate(const Problem& problem, const Configuration&, const DeviceInfo&) const override {
    if (compiles_) std::this_thread::sleep_for(500ms);
    KernelInstance instance;
    instance.source = fmt::format(
        "#include <time.h>\nextern \"C\" void scale(void* const* arguments, long long) {{\n"
        "  for (long long i = 0; i < {}; ++i)\n    ((float*)arguments[2])[i] = ((const "
        "float*)arguments[0])[i] "
        "* "
        "*(const float*)arguments[1];\n  timespec t = {{0, 6000000}};\n  nanosleep(&t, 0);\n}}\n",
        problem.output_extents().elements());
    instance.run.push_back(
        {"scale", {1, 1, 1}, {1, 1, 1}, 0, {{Slot::input, 0}, {Slot::parameter, 0}, {Slot::output, 0}}});
    return instance;
  }

 private:
  bool compiles_;
};

const KernelFamily& simulated_family(bool compiles) {
  static const SimulatedFamily family(compiles);
  return family;
}

void register_families(bool compiles) {
  const char* nonce = std::getenv(kNonce);
  const std::string name = nonce ? nonce : "none";
  register_family(simulated_family(compiles));
  static const test::NarrowedFamily cpu(*find_family(Backend::cpu, "direct_conv"),
                                        {"channels_per_thread", "pixels_per_thread", "unroll", "tile_h"},
                                        name);
  register_family(cpu);
  if (families(Backend::cuda).empty()) return;
  static const test::NarrowedFamily cuda(
      *find_family(Backend::cuda, "direct_conv"),
      {"stages", "tiles_per_block", "weights_source", "min_blocks", "tile_h", "channels_per_block",
       "channels_per_thread", "unroll_rows", "input_channels_per_step", "tile_w"},
      name);
  register_family(cuda);
}

struct Task {
  std::string family;
  SessionDevice device;
  Problem problem;
  TimingOptions timing;
};

Task make_task(const std::string& wanted, const std::string& line) {
  const std::vector<DeviceInfo> all = list_devices(nullptr);
  const bool simulated = wanted == "simulated";
  const bool cuda = wanted == "best" ? all.size() > 1 : wanted.starts_with("cuda");
  const std::string name = wanted == "best" ? (cuda ? "cuda:0" : "cpu") : simulated ? "cpu" : wanted;
  const char* usual = simulated ? "conv1d n=1 c=1 w=1000 k=1 s=1"
                      : cuda    ? "conv2d n=16 c=32 h=64 w=64 k=64 r=3 s=3 pad=1 bias | relu"
                                : "conv2d n=1 c=16 h=32 w=32 k=32 r=3 s=3 pad=1 bias | relu";
  Task task{simulated ? "simulated" : "narrowed",
            {name, open_device(name)->info()},
            Problem::parse(line.empty() ? usual : line),
            {}};
  task.timing.min_samples = task.timing.max_samples = simulated ? 1 : cuda ? kGpuSamples : kCpuSamples;
  if (simulated) task.timing.warmup = 0;
  return task;
}

class Silent : public SessionListener {
 public:
  void note(const std::string&) override {}
  void trial(const TrialEvent&) override {}
};

// Prints what a session's trials took; its trials a second once the devices are open.
double print(const Store& store, const SessionResult& result, const std::string& name) {
  double compile = 0, verify = 0, measure = 0;
  std::size_t samples = 0;
  int timed = 0, once = 0;  // the finalists' samples are those of their last timing
  for (const TrialRecord& trial : store.session_trials(result.id)) {
    compile += trial.compile_seconds.value_or(0) / static_cast<double>(result.evaluated);
    if (!trial.timing) continue;
    ++timed;
    verify += trial.verify_seconds.value_or(0);
    measure += trial.measure_seconds.value_or(0);
    if (trial.retimed) continue;
    ++once;
    samples += trial.timing->samples.size();
  }
  const double seconds = result.search_seconds - result.opening_seconds;
  const double rate = static_cast<double>(result.evaluated) / seconds;
  std::cout << fmt::format(
      "{:<22}{:>4} trials ({} ok) in {:.1f} s after {:.1f} s of opening: {:.2f} trials/s, device busy "
      "{:.0f}%; "
      "compiling {:.3f} s, verifying {:.4f} s, timing {:.4f} s, {:.1f} samples a trial\n",
      name, result.evaluated, timed, seconds, result.opening_seconds, rate, 100 * result.busy_share, compile,
      verify / std::max(timed, 1), measure / std::max(timed, 1),
      static_cast<double>(samples) / std::max(once, 1));
  return rate;
}

// One session in a folder of its own, which goes away with it.
double run(const Task& task, std::int64_t trials, int jobs, bool overlap) {
  const test::TemporaryFolder folder;
  setenv("KNOBWISE_CACHE", (folder / "cache").c_str(), 1);
  setenv(kNonce, std::to_string(std::chrono::system_clock::now().time_since_epoch().count()).c_str(), 1);
  if (task.family == "simulated")  // else every worker's first configuration would run the compiler
    CodeCache().get_or_compile(simulated_family(false).instantiate(task.problem, {}, task.device.info),
                               task.device.info);
  SessionOptions options;
  options.executable = "/proc/self/exe";
  options.devices = {task.device};
  options.strategy = "random";
  options.max_trials = trials;
  options.families = {task.family};
  options.jobs = jobs;
  options.overlap = overlap;
  options.timing = task.timing;
  options.accuracy = AccuracyRequirement::parse("allclose");
  Store store = Store::open(folder / "bench.db", Store::Mode::read_write);
  Silent listener;
  const SessionResult result = tune(store, task.problem, options, listener).front();
  return print(store, result, overlap ? fmt::format("pipeline, {} jobs", jobs) : "one after the other");
}

int bench(const std::string& device, std::int64_t trials, int jobs, std::int64_t sequential_trials,
          const std::string& line) {
  const Task task = make_task(device, line);
  if (jobs == 0) jobs = list_devices(nullptr).front().multiprocessors;
  const KernelFamily& family = *find_family(task.device.info.backend, task.family);
  std::cout << fmt::format("{} on {}, {} configurations\n", task.problem.to_string(), task.device.info.name,
                           bind_space(family, task.problem, task.device.info).size());
  const double sequential = run(task, sequential_trials > 0 ? sequential_trials : trials, 1, false);
  const double pipelined = run(task, trials, jobs, true);
  std::cout << fmt::format("{:.2f} times the trials a second\n", pipelined / sequential);
  return 0;
}

}  // namespace
}  // namespace knobwise

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  knobwise::register_families(argument(1, "") == "worker" && argument(2, "") == "compile");
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  const std::string device = argument(1, "best");
  const long long trials = std::atoll(argument(2, "32").c_str()),
                  sequential = std::atoll(argument(4, "0").c_str());
  const int jobs = std::atoi(argument(3, "0").c_str());
  if (argc > 6 || device.starts_with('-') || trials < 1 || sequential < 0 || jobs < 0) {
    std::cerr << "usage: knobwise_evaluation_bench [device=best] [trials=32] [jobs=all cores] "
                 "[sequential trials=as many] [problem]\n";
    return 2;
  }
  try {
    return knobwise::bench(device, trials, jobs, sequential, argument(5, ""));
  } catch (const knobwise::UserError& error) {
    std::cerr << "knobwise_evaluation_bench: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
