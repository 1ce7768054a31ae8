// Speed of the tuning database on a local disk.
#include <SQLiteCpp/SQLiteCpp.h>
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <filesystem>
#include <random>

#include "db/identifiers.h"
#include "db/store.h"

namespace {

using namespace knobwise;
namespace fs = std::filesystem;

constexpr int kBatch = 1000;
constexpr int kTrialsEach = 5000;
constexpr int kProblems = 20;        // 100,000 trials in all.
constexpr int kManyProblems = 280;   // 1,400,000 trials, more than 1 GB.
constexpr int kMergedProblems = 40;  // 200,000 trials in each of two files.

/// A database file in the temporary folder, removed at the end.
struct File {
  fs::path path = fs::temp_directory_path() / ("knobwise-bench-" + make_uuid() + ".db");
  ~File() {
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path.string() + suffix);
  }
};

ProblemRecord problem(int number) {
  return {.line = fmt::format("conv2d n={} c=64 h=56 w=56 k=64 r=3 s=3 pad=1", number + 1),
          .op = "conv2d",
          .dtype = "f32",
          .layout = "nchw",
          .epilogue = "",
          .flops = 231'211'008,
          .compulsory_bytes = 1'753'088};
}

/// A trial of one search with the usual size: a dozen knobs, 30 samples, three distributions.
TrialRecord trial(const SessionRecord& session, std::int64_t session_id, std::int64_t family, int number,
                  std::mt19937& random) {
  TrialRecord record;
  record.session = session_id;
  record.device = session.device;
  record.environment = session.environment;
  record.problem = session.problem;
  record.family = family;
  record.configuration = fmt::format(
      R"({{"block_k":64,"block_p":128,"cache_input":true,"id":{},"pad":0,"precision":"tf32x3","stages":3,)"
      R"("step_c":8,"thread_k":8,"thread_p":8,"unroll":4,"vector":4}})",
      number);
  record.precision = "tf32x3";
  record.started = utc_now();
  record.wall_seconds = number;
  record.session_order = number;
  if (random() % 4 == 0) {
    record.status = TrialStatus::out_of_resources;
    record.reason = "the launch needs 300,000 bytes of shared memory, the device has 232,448";
    return record;
  }
  const double time_us = 50 + static_cast<double>(random() % 100'000) / 100;
  record.timing = TimingRecord{.time_us = time_us, .min_us = time_us, .mean_us = time_us, .samples = {}};
  record.timing->samples.assign(30, static_cast<float>(time_us));
  // Half of the trials miss the default limit, as the fast precision modes do.
  const double outside = random() % 2 == 0 ? 0.1 : 0;
  for (const char* distribution : {"integers", "normal", "uniform"}) {
    record.errors.push_back({.distribution = distribution,
                             .max_abs = 1e-6,
                             .mean_abs = 1e-7,
                             .rms = 1e-7,
                             .rel_fro = 1e-7,
                             .frac_outside = outside,
                             .checked = 4096});
  }
  return record;
}

SessionRecord session(Store& store, int problem_number) {
  return {.uuid = make_uuid(),
          .device = store.intern_device(
              {.backend = "cuda", .vendor = "NVIDIA", .name = "NVIDIA H200", .architecture = "sm_90"}),
          .environment = store.intern_environment({}),
          .problem = store.intern_problem(problem(problem_number)),
          .strategy = "random",
          .accuracy = "allclose",
          .started = utc_now(),
          .command_line = "",
          .host = ""};
}

std::vector<TrialRecord> trials(Store& store, int problem_number, int count) {
  std::mt19937 random(static_cast<unsigned>(problem_number));
  const SessionRecord record = session(store, problem_number);
  const std::int64_t id = store.begin_session(record);
  const std::int64_t family =
      store.intern_family({.backend = "cuda", .name = "implicit_gemm", .source_hash = "a"});
  std::vector<TrialRecord> all;
  for (int i = 0; i < count; ++i) all.push_back(trial(record, id, family, i, random));
  return all;
}

void insert_one_by_one(benchmark::State& state) {
  const File file;
  Store store = Store::open(file.path, Store::Mode::read_write);
  int problem_number = 0;
  std::vector<TrialRecord> pending;
  for (auto _ : state) {
    if (pending.empty()) {
      state.PauseTiming();
      pending = trials(store, problem_number++, kBatch);
      state.ResumeTiming();
    }
    store.insert_trial(pending.back());
    pending.pop_back();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(insert_one_by_one)->Unit(benchmark::kMicrosecond);

void insert_in_batches(benchmark::State& state) {
  const File file;
  Store store = Store::open(file.path, Store::Mode::read_write);
  int problem_number = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::vector<TrialRecord> batch = trials(store, problem_number++, kBatch);
    state.ResumeTiming();
    store.insert_trials(batch);
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(insert_in_batches)->Unit(benchmark::kMillisecond);

void fill(const fs::path& path, int first_problem, int problems) {
  Store store = Store::open(path, Store::Mode::read_write);
  for (int i = 0; i < problems; ++i) store.insert_trials(trials(store, first_problem + i, kTrialsEach));
}

/// 20 problems with 5000 trials each.
const File& medium_database() {
  static const File file;
  static const bool filled = (fill(file.path, 0, kProblems), true);
  benchmark::DoNotOptimize(filled);
  return file;
}

/// 280 problems with 5000 trials each.
const File& large_database() {
  static const File file;
  static const bool filled = (fill(file.path, 0, kManyProblems), true);
  benchmark::DoNotOptimize(filled);
  return file;
}

void read_view(benchmark::State& state, const char* view, const File& (*file)()) {
  SQLite::Database database(file().path.string());
  std::int64_t rows = 0;
  for (auto _ : state) {
    SQLite::Statement query(database, fmt::format("SELECT * FROM {}", view));
    for (rows = 0; query.executeStep(); ++rows) {
    }
  }
  state.counters["rows"] = static_cast<double>(rows);
}
BENCHMARK_CAPTURE(read_view, best, "best", medium_database)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_view, best_of_1_400_000, "best", large_database)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_view, failures, "failures", medium_database)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_view, progress, "progress", medium_database)->Unit(benchmark::kMillisecond);

/// What an application waits for: a file of 1 GB is opened, the device is found and one problem looked up.
void open_and_look_up(benchmark::State& state) {
  const fs::path path = large_database().path;
  const DeviceRecord device = Store::open(path, Store::Mode::read_only).device(1);
  int number = 0;
  for (auto _ : state) {
    const Store store = Store::open(path, Store::Mode::read_only);
    const auto id = store.find_problem(problem(number++ % kManyProblems).line);
    benchmark::DoNotOptimize(store.best(id.value(), store.find_device(device).value(), allclose_limits()));
  }
  state.counters["GB"] = static_cast<double>(fs::file_size(path)) / 1e9;
}
BENCHMARK(open_and_look_up)->Unit(benchmark::kMillisecond);

/// Two files of 200,000 trials into a new one.
void merge_two(benchmark::State& state) {
  const File a, b;
  fill(a.path, 0, kMergedProblems);
  fill(b.path, kMergedProblems, kMergedProblems);
  for (auto _ : state) {
    const File out;
    Store store = Store::open(out.path, Store::Mode::read_write);
    store.merge(a.path);
    store.merge(b.path);
  }
  state.SetItemsProcessed(state.iterations() * 2 * kMergedProblems * kTrialsEach);
}
BENCHMARK(merge_two)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

/// The same again: nothing is new.
void merge_again(benchmark::State& state) {
  const File a, out;
  fill(a.path, 0, kMergedProblems);
  Store store = Store::open(out.path, Store::Mode::read_write);
  store.merge(a.path);
  for (auto _ : state) store.merge(a.path);
}
BENCHMARK(merge_again)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

void find_best(benchmark::State& state) {
  const Store store = Store::open(medium_database().path, Store::Mode::read_only);
  std::int64_t problem_id = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(store.best(problem_id++ % kProblems + 1, 1, allclose_limits()));
  }
}
BENCHMARK(find_best)->Unit(benchmark::kMicrosecond);

void load_finished_trials(benchmark::State& state) {
  const Store store = Store::open(medium_database().path, Store::Mode::read_only);
  for (auto _ : state) benchmark::DoNotOptimize(store.finished_trials(1, 1, 1, 1).size());
  state.SetItemsProcessed(state.iterations() * kTrialsEach);
}
BENCHMARK(load_finished_trials)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
