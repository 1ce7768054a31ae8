#include "tests/reports/databases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "db/identifiers.h"
#include "db/store.h"

namespace knobwise::report_tests {
namespace {

DeviceRecord gpu() {
  DeviceRecord device;
  device.backend = "cuda", device.vendor = "NVIDIA", device.name = "NVIDIA H200",
  device.architecture = "sm_90";
  device.multiprocessors = 132, device.memory_bytes = std::int64_t{140} << 30, device.clock_khz = 1980000;
  device.memory_clock_khz = 3201000, device.l2_bytes = 60 << 20, device.shared_memory_per_block = 227 << 10;
  device.extra =
      R"({"compute_capability": 90, "ceilings": {"memory": 4.25e12, "fp32": 5.07e13, "tf32": 4.02e14}})";
  return device;
}

DeviceRecord cpu() {
  DeviceRecord device;
  device.backend = "cpu", device.vendor = "AuthenticAMD", device.name = "AMD EPYC 9654";
  device.architecture = "x86-64-v4", device.multiprocessors = 2, device.memory_bytes = std::int64_t{16} << 30;
  device.clock_khz = 3700000, device.l2_bytes = 32 << 20, device.extra = R"({"vector_bytes": 64})";
  return device;
}

ProblemRecord problem(const std::string& line, std::int64_t flops, std::int64_t bytes) {
  ProblemRecord record;
  record.line = line, record.op = line.substr(0, line.find(' ')), record.dtype = "f32",
  record.layout = "nchw";
  record.flops = flops, record.compulsory_bytes = bytes;
  return record;
}

EnvironmentRecord environment(const std::string& driver) {
  EnvironmentRecord record;
  record.driver_version = driver, record.toolkit_version = "NVRTC 13.0", record.compiler = "GNU 12.2.0";
  record.knobwise_version = "0.1.0", record.os = "Linux x86_64";
  return record;
}

std::string moment(std::int64_t seconds) {
  return utc_text(std::chrono::system_clock::time_point(std::chrono::seconds(1'780'000'000 + seconds)));
}

// Everything random comes from here, and is the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::int64_t below(std::int64_t limit) { return static_cast<std::int64_t>(engine_() % limit); }
  template <class Item>
  const Item& pick(const std::vector<Item>& items) {
    return items[below(static_cast<std::int64_t>(items.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

TimingRecord timing(double time_us, Random& random) {
  TimingRecord record;
  record.time_us = time_us, record.min_us = time_us * 0.985, record.mean_us = time_us * 1.004;
  for (int i = 0; i < 30; ++i)
    record.samples.push_back(static_cast<float>(time_us * (0.985 + 0.03 * random.uniform())));
  return record;
}

std::vector<ErrorRecord> errors(double rel_fro, double frac_outside) {
  std::vector<ErrorRecord> records;
  for (const char* distribution : {"uniform", "normal", "integers"}) {
    ErrorRecord error;
    error.distribution = distribution, error.rel_fro = rel_fro, error.max_abs = rel_fro * 3;
    error.mean_abs = rel_fro / 4, error.rms = rel_fro / 2, error.frac_outside = frac_outside,
    error.checked = 4096;
    records.push_back(error);
  }
  return records;
}

struct Mode {
  std::string name;
  double speed, rel_fro, frac_outside;
};
const std::vector<Mode> kModes = {{"fp32", 1.0, 2e-7, 0},     {"tf32", 0.45, 3e-4, 0.12},
                                  {"tf32x3", 0.8, 1.4e-7, 0}, {"bf16", 0.3, 2.4e-3, 0.4},
                                  {"bf16x3", 0.62, 6e-6, 0},  {"fp16", 0.32, 2.9e-4, 0.1},
                                  {"fp16x3", 0.58, 2e-6, 0}};

struct Failure {
  TrialStatus status;
  std::string reason;
};
const std::vector<Failure> kFailures = {
    {TrialStatus::compile_failed,
     "direct_conv.cuh(118): error: identifier \"KNOB_tile_w\" is undefined\n1 error detected"},
    {TrialStatus::out_of_resources,
     "launch needs 240 KiB of shared memory per block, the device has 227 KiB"},
    {TrialStatus::timeout, "stopped after one run of 84.2 ms: more than 10 times the best so far (2.61 ms)"},
    {TrialStatus::wrong_result, "output[3,17,0,125] = 0.4182, reference 0.3911 (uniform)"},
    {TrialStatus::crashed, "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"},
};

// One search of one problem on one device.
struct Search {
  std::int64_t device, environment, problem, family;
  bool on_gpu;
  double scale_us;
  std::string strategy;
  std::uint64_t seed;
  std::int64_t start;
};

SessionRecord session_record(const Search& search) {
  SessionRecord session;
  session.uuid = make_uuid();
  session.device = search.device, session.environment = search.environment, session.problem = search.problem;
  session.strategy = search.strategy, session.seed = search.seed, session.max_trials = 500;
  session.accuracy = "allclose", session.started = moment(search.start);
  session.finished = moment(search.start + 600), session.state = SessionState::finished;
  session.command_line =
      fmt::format("knobwise tune 'conv2d ...' --strategy {} --seed {}", search.strategy, search.seed);
  session.host = "build-7";
  return session;
}

TrialRecord trial_record(const Search& search, std::int64_t session, std::int64_t order, Random& random) {
  static const std::vector<int> kTiles = {4, 8, 16, 32, 64};
  static const std::vector<int> kChannels = {1, 2, 4, 8, 16};
  const int tile_w = random.pick(kTiles), tile_h = random.pick(kTiles), channels = random.pick(kChannels);
  const int vector = random.pick(std::vector<int>{1, 2, 4}), stages = static_cast<int>(random.below(8));
  const std::string source = random.pick(std::vector<std::string>{"global", "shared", "constant"});
  const Mode& mode = search.on_gpu ? random.pick(kModes) : kModes[0];

  TrialRecord trial;
  trial.session = session, trial.device = search.device, trial.environment = search.environment;
  trial.problem = search.problem, trial.family = search.family, trial.precision = mode.name;
  trial.configuration = fmt::format(
      R"({{"tile_w":{},"tile_h":{},"channels_per_thread":{},"vector_width":{},"input_channels_per_step":{},"weights_source":"{}","precision":"{}"}})",
      tile_w, tile_h, channels, vector, stages + 1, source, mode.name);
  trial.started = moment(search.start + 2 * order), trial.wall_seconds = 1.7 * static_cast<double>(order + 1);
  trial.session_order = order, trial.compile_seconds = 0.4 + 0.3 * random.uniform();
  if (random.uniform() < 0.18) {
    const Failure& failure = random.pick(kFailures);
    trial.status = failure.status, trial.reason = failure.reason;
    return trial;
  }
  const double shape =
      std::abs(std::log2(tile_w * tile_h / 256.0)) * 0.16 + std::abs(std::log2(channels / 8.0)) * 0.3;
  const double rest = (vector == 4 ? 0 : 0.12) + (source == "shared" ? 0 : 0.08) + 0.01 * stages;
  const double time = search.scale_us * mode.speed * (1 + shape + rest) * (0.97 + 0.06 * random.uniform());
  trial.timing = timing(time, random);
  trial.errors = errors(mode.rel_fro * (0.8 + 0.4 * random.uniform()), mode.frac_outside);
  trial.verify_seconds = 0.12, trial.measure_seconds = 0.05;
  if (search.on_gpu) {
    trial.resources.registers = 24 + 8 * channels + tile_w;
    trial.resources.spill_bytes = channels == 16 && tile_w > 32 ? 48 : 0;
    trial.resources.static_shared_bytes = source == "shared" ? 4 * tile_w * tile_h * (stages + 1) : 0;
    trial.resources.occupancy = 1.0 / (1 + channels / 8);
    trial.extra = fmt::format("{{\"waves\":{}}}", 2.5 + channels);
    trial.clock_khz = 1965000, trial.temperature_c = 54 + random.uniform();
  }
  return trial;
}

void run_search(Store& store, const Search& search, std::size_t count) {
  Random random(search.seed * 7919 + static_cast<std::uint64_t>(search.problem * 13 + search.device));
  const std::int64_t session = store.begin_session(session_record(search));
  std::set<std::string> known;
  std::vector<TrialRecord> trials;
  std::int64_t order = 0;
  for (std::size_t attempt = 0; attempt < 4 * count && trials.size() < count; ++attempt) {
    TrialRecord trial = trial_record(search, session, order, random);
    if (!known.insert(trial.configuration).second) continue;
    trials.push_back(std::move(trial));
    ++order;
  }
  store.insert_trials(trials);
}

void put_baseline(Store& store, const Search& search, const std::string& name, double time_us) {
  Random random(99);
  BaselineRecord baseline;
  baseline.device = search.device, baseline.environment = search.environment,
  baseline.problem = search.problem;
  baseline.name = name, baseline.timing = timing(time_us, random), baseline.errors = errors(3e-7, 0);
  baseline.started = moment(search.start);
  store.put_baseline(baseline);
}

const char* kProblem = "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01";

}  // namespace

void make_sweep(const std::filesystem::path& path, std::size_t trials) {
  Store store = Store::open(path, Store::Mode::read_write);
  struct Case {
    ProblemRecord problem;
    double gpu_us;
  };
  const std::vector<Case> cases = {
      {problem("conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias", 53'970'000'000,
               451'640'000),
       1900},
      {problem(kProblem, 18'730'000'000, 587'300'000), 610},
      {problem("conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-05 affine",
               3'220'000'000, 25'590'000),
       70},
  };
  const std::int64_t devices[] = {store.intern_device(gpu()), store.intern_device(cpu())};
  const std::int64_t old_driver = store.intern_environment(environment("12.8"));
  const std::int64_t driver = store.intern_environment(environment("13.0"));
  EnvironmentRecord host = environment("");
  host.toolkit_version.clear();
  const std::int64_t on_host = store.intern_environment(host);
  const std::int64_t old_source = store.intern_family({"cuda", "direct_conv", "4f1de2aa90c1"});
  const std::int64_t cuda = store.intern_family({"cuda", "direct_conv", "9b77c0d1e4f2"});
  const std::int64_t on_cpu = store.intern_family({"cpu", "direct_conv", "c3c3a1b2d4e5"});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::int64_t id = store.intern_problem(cases[i].problem);
    const std::int64_t start = static_cast<std::int64_t>(i) * 4000;
    const Search gpu_search{devices[0],      driver,   id, cuda,           true,
                            cases[i].gpu_us, "random", 1,  start + 100'000};
    run_search(store,
               {devices[0], old_driver, id, old_source, true, cases[i].gpu_us * 1.1, "random", 7, start},
               trials / 4);
    run_search(store, gpu_search, trials / 2);
    Search second = gpu_search;
    second.strategy = "annealing", second.seed = 2, second.start += 2000, second.scale_us *= 0.97;
    run_search(store, second, trials / 4);
    const Search host_search{
        devices[1], on_host, id, on_cpu, false, cases[i].gpu_us * 210, "exhaustive", 3, start + 100'000};
    run_search(store, host_search, trials / 2);
    put_baseline(store, gpu_search, "cudnn", cases[i].gpu_us * (i == 2 ? 0.55 : 1.3));
    put_baseline(store, gpu_search, "direct_conv default", cases[i].gpu_us * 2.2);
    put_baseline(store, host_search, "onednn", cases[i].gpu_us * 205);
    put_baseline(store, host_search, "direct_conv default", cases[i].gpu_us * 400);
  }
}

void make_empty(const std::filesystem::path& path) {
  Store::open(path, Store::Mode::read_write);
}

namespace {

// A database with one problem, device and session, and the search to add trials to.
Search single_search(Store& store, const DeviceRecord& device, const std::string& line,
                     const std::string& family) {
  return {store.intern_device(device),
          store.intern_environment(environment("13.0")),
          store.intern_problem(problem(line, 18'730'000'000, 587'300'000)),
          store.intern_family({device.backend, family, "0011223344"}),
          true,
          610,
          "random",
          5,
          0};
}

}  // namespace

void make_only_failures(const std::filesystem::path& path) {
  Store store = Store::open(path, Store::Mode::read_write);
  const Search search = single_search(store, gpu(), kProblem, "direct_conv");
  const std::int64_t session = store.begin_session(session_record(search));
  Random random(3);
  std::vector<TrialRecord> trials;
  for (std::int64_t i = 0; i < 12; ++i) {
    TrialRecord trial = trial_record(search, session, i, random);
    trial.configuration = fmt::format(R"({{"tile_w":{}}})", i);
    trial.timing.reset(), trial.errors.clear();
    trial.status = kFailures[i % 3].status, trial.reason = kFailures[i % 3].reason;
    trials.push_back(trial);
  }
  store.insert_trials(trials);
}

void make_one_trial(const std::filesystem::path& path) {
  Store store = Store::open(path, Store::Mode::read_write);
  const Search search = single_search(store, cpu(), kProblem, "direct_conv");
  TrialRecord trial;
  trial.session = store.begin_session(session_record(search)), trial.device = search.device;
  trial.environment = search.environment, trial.problem = search.problem, trial.family = search.family;
  trial.configuration = "{}", trial.started = moment(0), trial.wall_seconds = 1;
  Random random(1);
  trial.timing = timing(1234.5, random), trial.errors = errors(1e-7, 0);
  store.insert_trial(trial);
}

void make_changed_source(const std::filesystem::path& path) {
  Store store = Store::open(path, Store::Mode::read_write);
  Search search = single_search(store, gpu(), kProblem, "direct_conv");
  run_search(store, search, 20);
  put_baseline(store, search, "cudnn", 800);
  put_baseline(store, search, "direct_conv default", 900);
  search.family = store.intern_family({"cuda", "direct_conv", "5566778899"});
  search.start += 1'000'000, search.seed += 1;
  run_search(store, search, 20);
}

void make_hostile(const std::filesystem::path& path) {
  Store store = Store::open(path, Store::Mode::read_write);
  DeviceRecord device = gpu();
  device.name = "<script>window.injected = 1</script> 🚀 & \"Co\"";
  const Search search = single_search(
      store, device, "conv2d <img src=x onerror=window.injected=2> 'quoted' 🧨 \u05e9\u05dc\u05d5\u05dd",
      "</script><script>window.injected = 3</script>");
  SessionRecord record = session_record(search);
  record.strategy = "<b>bold</b>", record.command_line = "echo '</script>' \"$(x)\" `y`",
  record.host = "h<o>st";
  const std::int64_t session = store.begin_session(record);
  Random random(11);
  std::vector<TrialRecord> trials;
  for (std::int64_t i = 0; i < 30; ++i) {
    TrialRecord trial = trial_record(search, session, i, random);
    trial.configuration = fmt::format(R"({{"<i>knob</i>":{},"emoji 🎛️":"<u>{}</u>"}})", i % 10, i / 10);
    if (!trial.timing) trial.reason = "<script>window.injected = 4</script> --> <!-- \x01 \xff broken";
    trials.push_back(trial);
  }
  store.insert_trials(trials);
  put_baseline(store, search, "<em>library</em>", 700);
}

struct RunningSearch::Impl {
  Store store;
  Search search;
  Random random{17};
  std::int64_t session, order = 0;

  explicit Impl(const std::filesystem::path& path)
      : store(Store::open(path, Store::Mode::read_write)),
        search(single_search(store, gpu(), kProblem, "direct_conv")) {
    SessionRecord record = session_record(search);
    record.finished.reset(), record.state = SessionState::running;
    session = store.begin_session(record);
  }
};

RunningSearch::RunningSearch(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
RunningSearch::~RunningSearch() = default;

void RunningSearch::add(std::size_t trials) {
  for (std::size_t added = 0; added < trials;) {
    const TrialRecord trial = trial_record(impl_->search, impl_->session, impl_->order, impl_->random);
    if (!impl_->store.insert_trial(trial).inserted) continue;
    ++added, ++impl_->order;
  }
}

}  // namespace knobwise::report_tests
