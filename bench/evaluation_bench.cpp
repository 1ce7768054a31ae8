// Trials a second of the pipeline against a sequential compile-then-measure loop: the same configurations of
// the same space, in fresh databases, with nothing compiled before.
//
//   evaluation_bench [device=best] [trials=32] [jobs=all cores] [problem]
//
// A kernel's configurations differ in a few knobs (tests/tuner/narrowed_family.h); every run compiles sources
// of its own, so that neither our cache nor NVRTC's answers.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "db/store.h"
#include "kernels/device.h"
#include "tests/tuner/narrowed_family.h"
#include "tests/tuner/self_worker.h"
#include "tuner/session.h"

namespace knobwise {
namespace {

constexpr int kSamples = 10;  // of every configuration that is not hopeless, in both runs
constexpr const char* kNonce = "KNOBWISE_BENCH_NONCE";

void register_families() {
  const char* nonce = std::getenv(kNonce);
  const std::string name = nonce ? nonce : "none";
  static const test::NarrowedFamily cpu(*find_family(Backend::cpu, "direct_conv"),
                                        {"channels_per_thread", "pixels_per_thread", "unroll"}, name);
  register_family(cpu);
  if (families(Backend::cuda).empty()) return;
  static const test::NarrowedFamily cuda(
      *find_family(Backend::cuda, "direct_conv"),
      {"stages", "tiles_per_block", "weights_source", "min_blocks", "tile_h", "channels_per_block"}, name);
  register_family(cuda);
}

class Silent : public SessionListener {
 public:
  void note(const std::string&) override {}
  void trial(const TrialEvent&) override {}
};

// Trials a second of one session in a folder of its own, which goes away with it.
double run(const Problem& problem, const SessionDevice& device, std::int64_t trials, int jobs, bool overlap) {
  std::string pattern = (std::filesystem::temp_directory_path() / "knobwise-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  setenv("KNOBWISE_CACHE", (folder / "cache").c_str(), 1);
  setenv(kNonce, folder.filename().string().substr(9).c_str(), 1);
  SessionOptions options;
  options.executable = "/proc/self/exe";
  options.devices = {device};
  options.strategy = "random";
  options.max_trials = trials;
  options.families = {"narrowed"};
  options.jobs = jobs;
  options.overlap = overlap;
  options.timing.min_samples = options.timing.max_samples = kSamples;
  options.accuracy = AccuracyRequirement::parse("allclose");
  double trials_per_second = 0;
  {
    Store store = Store::open(folder / "bench.db", Store::Mode::read_write);
    Silent listener;
    const SessionResult result = tune(store, problem, options, listener).front();
    double compile = 0, measure = 0;
    std::size_t samples = 0;
    int timed = 0, once = 0;  // the finalists' samples are those of their last timing
    for (const TrialRecord& trial : store.session_trials(result.id)) {
      compile += trial.compile_seconds.value_or(0) / static_cast<double>(result.evaluated);
      if (!trial.timing) continue;
      ++timed;
      measure += trial.verify_seconds.value_or(0) + trial.measure_seconds.value_or(0);
      if (trial.retimed) continue;
      ++once;
      samples += trial.timing->samples.size();
    }
    trials_per_second = static_cast<double>(result.evaluated) / result.search_seconds;
    std::cout << fmt::format(
        "{:<22}{:>3} trials ({} ok) in {:>6.1f} s: {:>6.2f} trials/s, device busy {:>3.0f}%; compiling "
        "{:.2f} s, measuring {:.3f} s, {:.1f} samples a trial\n",
        overlap ? fmt::format("pipeline, {} jobs", jobs) : "one after the other", result.evaluated, timed,
        result.search_seconds, trials_per_second, 100 * result.busy_share, compile,
        measure / std::max(timed, 1), static_cast<double>(samples) / std::max(once, 1));
  }
  std::filesystem::remove_all(folder);
  return trials_per_second;
}

int bench(const std::string& wanted, std::int64_t trials, int jobs, const std::string& line) {
  const std::vector<DeviceInfo> all = list_devices(nullptr);
  const bool cuda = wanted == "best" ? all.size() > 1 : wanted.starts_with("cuda");
  const std::string name = wanted == "best" ? (cuda ? "cuda:0" : "cpu") : wanted;
  const SessionDevice device{name, open_device(name)->info()};
  const Problem problem = Problem::parse(!line.empty() ? line
                                         : cuda ? "conv2d n=16 c=32 h=64 w=64 k=64 r=3 s=3 pad=1 bias | relu"
                                                : "conv2d n=1 c=16 h=32 w=32 k=32 r=3 s=3 pad=1 bias | relu");
  if (jobs == 0) jobs = all.front().multiprocessors;
  std::cout << fmt::format("{} on {}\n", problem.to_string(), device.info.name);
  const double sequential = run(problem, device, trials, 1, false);
  const double pipelined = run(problem, device, trials, jobs, true);
  std::cout << fmt::format("{:.2f} times the trials a second\n", pipelined / sequential);
  return 0;
}

}  // namespace
}  // namespace knobwise

int main(int argc, char** argv) {
  knobwise::register_families();
  int status = 0;
  if (knobwise::test::served_as_worker(argc, argv, status)) return status;
  const auto argument = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  try {
    return knobwise::bench(argument(1, "best"), std::atoll(argument(2, "32").c_str()),
                           std::atoi(argument(3, "0").c_str()), argument(4, ""));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
