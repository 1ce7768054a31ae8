// What asking and running through the runtime costs, beside its goals and what the field reports:
//   knobwise_runtime_bench [DEVICE] [DATABASE]
// DEVICE is cpu (the default) or cuda:N. Without a DATABASE a small one with stored code is made. With one,
// made by `knobwise tune|sweep --store-code` on this machine, every problem in it is also dispatched, and
// timed beside its configuration by itself. One self-contained executable, so that it can be carried to the
// machine of interest.
#include <fmt/format.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/bare_launch.h"
#include "db/store.h"
#include "include/knobwise/dispatcher.h"
#include "kernels/code_cache.h"
#include "kernels/device.h"
#include "kernels/tensors.h"
#include "runtime/records.h"
#include "search_spaces/user_error.h"
#include "tests/runtime/record_trial.h"
#include "tests/tuner/temporary_folder.h"
#include "tuner/cli/plan_run.h"

namespace {

std::atomic<long> live_bytes{0};

}  // namespace

void* operator new(std::size_t bytes) {
  void* data = std::malloc(bytes ? bytes : 1);
  if (!data) throw std::bad_alloc();
  live_bytes += static_cast<long>(malloc_usable_size(data));
  return data;
}
void operator delete(void* data) noexcept {
  if (data) live_bytes -= static_cast<long>(malloc_usable_size(data));
  std::free(data);
}
void operator delete(void* data, std::size_t) noexcept {
  operator delete(data);
}

namespace {

using namespace knobwise;
using Clock = std::chrono::steady_clock;

constexpr const char* kLine = "conv2d n=1 c=1 h=3 w=3 k=1 r=3 s=3 bias | div 2 | leaky_relu 0.01";
constexpr int kProcesses = 15;  // of which the median counts

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void row(const std::string& what, const std::string& measured, const std::string& goal = "",
         const std::string& field = "") {
  fmt::print("{:<52}{:>14}  {:<12}{}\n", what, measured, goal, field);
  std::fflush(stdout);
}

struct Place {
  std::string device;
  std::filesystem::path folder, database;
  std::string line = kLine;  // a problem that the database answers exactly

  DispatcherOptions options() const {
    return {.databases = {database},
            .trusted = {database},
            .device = device,
            .code_cache = folder / "code",
            .on_new_plan = [](const PlanDescription&) {}};
  }
};

// A database with one measured problem and its machine code.
void make_database(const Place& place) {
  DispatcherOptions options = place.options();
  options.databases = options.trusted = {};
  const Plan plan = Dispatcher(options).plan(kLine, {.allow = {Provenance::family_default}});
  const std::unique_ptr<Device> device = open_device(place.device);
  const KernelFamily& family = *find_family(device->info().backend, plan.description().family);
  const Configuration& configuration = plan.description().configuration;
  Store store = Store::open(place.database, Store::Mode::read_write);
  const std::int64_t trial = test::record_trial(store, device->info(), plan.problem(), family, configuration,
                                                1, plan.description().error.value());
  const KernelInstance instance = family.instantiate(plan.problem(), configuration, device->info());
  store.put_code(trial, compile(instance, device->info()).image);
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Nanoseconds of its own processor time that one call costs each of so many threads at once: waiting for a
// processor does not count, waiting for a cache line does.
double time_calls(int threads, const std::function<void(int calls)>& call) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<double> means(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (double& mean : means) {
    workers.emplace_back([&] {
      constexpr int kCalls = 1000;
      call(kCalls);
      ++ready;
      while (!go) std::this_thread::yield();
      const auto begin = Clock::now();
      const double used = thread_seconds();
      long calls = 0;
      for (; seconds_since(begin) < 0.3; calls += kCalls) call(kCalls);
      mean = 1e9 * (thread_seconds() - used) / static_cast<double>(calls);
    });
  }
  while (ready < threads) std::this_thread::yield();
  go = true;
  for (std::thread& worker : workers) worker.join();
  return std::accumulate(means.begin(), means.end(), 0.0) / threads;
}

void bench_plans(const Place& place) {
  Dispatcher dispatcher(place.options());
  const PlanKey key(Problem::parse(kLine));
  const Requirement requirement;
  dispatcher.plan(key);
  for (int threads : {1, 2, 4, 8, 16}) {
    row(fmt::format("warm plan from a key, {} thread{}", threads, threads > 1 ? "s" : ""),
        fmt::format("{:.1f} ns", time_calls(threads,
                                            [&](int calls) {
                                              for (int i = 0; i < calls; ++i) dispatcher.plan(key);
                                            })),
        "< 100 ns", threads == 1 ? "oneDNN primitive cache hit ~5 us" : "");
  }
  for (int threads : {1, 16}) {
    row(fmt::format("warm plan from a Problem, {} thread{}", threads, threads > 1 ? "s" : ""),
        fmt::format("{:.1f} ns", time_calls(threads,
                                            [&](int calls) {
                                              for (int i = 0; i < calls; ++i)
                                                dispatcher.plan(key.problem(), requirement);
                                            })),
        "< 1 us");
  }
}

// Of a problem, their contents undefined: filling them on a GPU compiles something first.
struct Tensors {
  Tensors(Device& device, const Problem& problem)
      : buffers(allocate_tensors(problem, [&](std::size_t bytes, std::string_view purpose) {
          return memory.emplace_back(device.allocate(bytes, purpose))->data();
        })) {
    for (const ParameterSpec& spec : problem.parameters())
      parameters.emplace_back(buffers.parameters[parameters.size()], tensor_bytes(problem, spec.elements()));
  }
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  Buffers buffers;
  std::vector<ConstBuffer> parameters;
};

// Nanoseconds of one call of each, in turn, so that the machine's moods hit all alike. The queue is emptied
// outside the timed part.
std::vector<double> time_in_turn(Device& device, const std::vector<std::function<void()>>& calls) {
  constexpr int kBatches = 200, kCalls = 200;
  std::vector<std::vector<double>> samples(calls.size());
  for (int batch = 0; batch < kBatches; ++batch) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto begin = Clock::now();
      for (int call = 0; call < kCalls; ++call) calls[i]();
      samples[i].push_back(1e9 * seconds_since(begin) / kCalls);
      device.synchronize();
    }
  }
  std::vector<double> medians;
  for (const auto& sample : samples) medians.push_back(median(sample));
  return medians;
}

void bench_runs(const Place& place) {
  DispatcherOptions options = place.options();
  Dispatcher dispatcher(options);
  Plan plan = dispatcher.plan(kLine, {.allow = {Provenance::exact, Provenance::family_default}});
  const std::unique_ptr<Device> device = open_device(place.device);
  Tensors tensors(*device, plan.problem());
  fill_tensors(*device, plan.problem(), tensors.buffers, Distribution::uniform, 1);
  plan.prepare(tensors.parameters);
  const KernelFamily& family = *find_family(device->info().backend, plan.description().family);
  const KernelInstance instance =
      family.instantiate(plan.problem(), plan.description().configuration, device->info());
  const CompiledCode code = compile(instance, device->info());
  const auto executable = device->load(instance, code);
  const auto packed = device->allocate(executable->packed_bytes(), "packed");
  const auto workspace = device->allocate(executable->workspace_bytes(), "workspace");
  tensors.buffers.packed = packed->data();
  tensors.buffers.workspace = workspace->data();
  executable->prepare(tensors.buffers, nullptr);
  const auto bare = bench::bare_launch(*device, instance, code, tensors.buffers);
  const ConstBuffer input(tensors.buffers.input, plan.input_bytes());
  const MutableBuffer output(tensors.buffers.output, plan.output_bytes());
  const auto times = time_in_turn(*device, {bare, [&] { plan.run(input, output); }});
  row(fmt::format("a bare launch ({})",
                  place.device == "cpu" ? "call of the compiled function" : "cuLaunchKernel"),
      fmt::format("{:.0f} ns", times[0]));
  row("Plan::run of the same kernel", fmt::format("{:.0f} ns", times[1]), "", "a Triton launch 3-6 us");
  row("  overhead", fmt::format("{:.0f} ns", times[1] - times[0]), "< 300 ns");
}

// Times that a process measured of its own beginning, by name, in milliseconds and in order.
using Steps = std::vector<std::pair<std::string, double>>;

double of(const Steps& steps, std::string_view name) {
  const auto found = std::ranges::find(steps, name, &Steps::value_type::first);
  if (found == steps.end()) throw std::runtime_error(fmt::format("a new process told nothing of {}", name));
  return found->second;
}

// Prints what each step takes: a line `MILLISECONDS NAME` for each.
class Laps {
 public:
  void lap(const std::string& name) {
    fmt::print("{} {}\n", 1e3 * seconds_since(begin_), name);
    begin_ = Clock::now();
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

// In a process of its own: from the start of the driver to the first run.
int first_plan(const Place& place) {
  Laps laps;
  const std::unique_ptr<Device> device = open_device(place.device);
  laps.lap("device");
  Dispatcher dispatcher(place.options());
  laps.lap("dispatcher");
  Plan plan = dispatcher.plan(place.line);
  laps.lap("plan");
  Tensors tensors(*device, plan.problem());
  Laps later;
  plan.prepare(tensors.parameters);
  device->synchronize();
  later.lap("prepare");
  plan.run({tensors.buffers.input, plan.input_bytes()}, {tensors.buffers.output, plan.output_bytes()});
  device->synchronize();
  later.lap("run");
  fmt::print("{} stored code\n", plan.description().stored_code ? 1 : 0);
  return 0;
}

// Likewise the parts of a first plan with stored code, one by one as the library goes through them.
int first_plan_parts(const Place& place) {
  const std::unique_ptr<Device> device = open_device(place.device);
  const DeviceInfo& info = device->info();
  Laps laps;
  const Store store = Store::open(place.database, Store::Mode::read_only);
  laps.lap("open database");
  const Problem problem = Problem::parse(place.line);
  const std::int64_t stored_problem = store.find_problem(place.line).value();
  const std::int64_t stored_device = store.find_device(device_record(info)).value();
  const AccuracyLimits limits =
      accuracy_limits(AccuracyRequirement::parse(problem.dtype == DType::f32 ? "allclose" : "half"));
  const TrialRecord trial = store.best(stored_problem, stored_device, limits).trial.value();
  laps.lap("find the trial");
  const KernelFamily& family = *find_family(info.backend, store.family(trial.family).name);
  family_record(family);
  laps.lap("hash the sources");
  const Configuration configuration = Configuration::from_json(trial.configuration);
  if (const auto reason = family.violation(problem, configuration, info)) throw std::runtime_error(*reason);
  laps.lap("check the configuration");
  const CompiledCode code{.image = store.code(trial.id).value(), .resources = {}, .seconds = 0};
  laps.lap("read the code");
  const KernelInstance instance = family.instantiate(problem, configuration, info);
  laps.lap("describe the launches");
  device->load(instance, code);
  laps.lap("load the module");
  return 0;
}

// As one word of a shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

// The medians of what processes print.
Steps measure_process(const Place& place, const std::string& what, int processes) {
  std::string command = shell_word(std::filesystem::read_symlink("/proc/self/exe").string());
  for (const std::string& argument :
       {what, place.device, place.folder.string(), place.database.string(), place.line})
    command += " " + shell_word(argument);
  std::vector<std::pair<std::string, std::vector<double>>> samples;
  for (int i = 0; i < processes; ++i) {
    FILE* pipe = popen(command.c_str(), "r");
    double milliseconds = 0;
    char name[64];
    while (pipe && std::fscanf(pipe, "%lf %63[^\n]", &milliseconds, name) == 2) {
      auto place = std::ranges::find(samples, name, &decltype(samples)::value_type::first);
      if (place == samples.end()) place = samples.insert(samples.end(), {name, {}});
      place->second.push_back(milliseconds);
    }
    if (!pipe || pclose(pipe) != 0) throw std::runtime_error("a new process failed: " + command);
  }
  Steps medians;
  for (const auto& [name, values] : samples) medians.emplace_back(name, median(values));
  return medians;
}

double first_plan_ms(const Steps& steps) {
  return of(steps, "dispatcher") + of(steps, "plan");
}

// What the parts leave of the whole is the dispatcher's own, and chance.
std::string tell_parts(const Steps& steps, const Steps& parts) {
  std::string text;
  double rest = first_plan_ms(steps);
  for (const auto& [name, milliseconds] : parts) {
    text += fmt::format("{} {:.2f}, ", name, milliseconds);
    rest -= milliseconds;
  }
  return fmt::format("{}other {:.2f}; then prepare {:.2f}, first run {:.2f}", text, rest,
                     of(steps, "prepare"), of(steps, "run"));
}

void bench_first_plan(const Place& place) {
  const Steps steps = measure_process(place, "first-plan", kProcesses);
  if (of(steps, "stored code") != 1) throw std::runtime_error("the stored code was not used");
  row("first plan in a new process, stored code", fmt::format("{:.2f} ms", first_plan_ms(steps)), "< 10 ms",
      "cuDNN graph build 65-260 ms a shape");
  row("  before it, starting the device", fmt::format("{:.2f} ms", of(steps, "device")), "(not counted)");
  fmt::print("  {}\n", tell_parts(steps, measure_process(place, "first-plan-parts", kProcesses)));
}

void bench_memory(const Place& place) {
  constexpr int kFirst = 2, kProblems = 10;
  Dispatcher dispatcher(place.options());
  const auto plan = [&](int i) {
    return dispatcher.plan(fmt::format("conv1d n=1 c=2 w={} k=4 s=3 bias | relu", 64 + 2 * i),
                           {.allow = {Provenance::family_default}});
  };
  for (int i = 0; i < kFirst; ++i) plan(i);
  const long before = live_bytes;
  for (int i = kFirst; i < kProblems; ++i) plan(i);
  const long problem = (live_bytes - before) / (kProblems - kFirst);
  Plan prepared = plan(0);
  const std::unique_ptr<Device> device = open_device(place.device);
  const Tensors tensors(*device, prepared.problem());
  const long unprepared = live_bytes;
  prepared.prepare(tensors.parameters);
  const long further = live_bytes - unprepared + static_cast<long>(sizeof(Plan));
  const KernelFamily& family = *find_family(device->info().backend, prepared.description().family);
  const KernelInstance instance =
      family.instantiate(prepared.problem(), prepared.description().configuration, device->info());
  const CompiledCode compiled = compile(instance, device->info());
  const long unloaded = live_bytes;
  const auto executable = device->load(instance, compiled);
  const long loaded = live_bytes - unloaded;
  row("memory of a problem's plan, besides its code", fmt::format("{} B", problem), "< 1 KB");
  row("  of it the launches", fmt::format("{} B", loaded));
  row("memory of a further plan of it, prepared", fmt::format("{} B", further));
}

// Medians over rounds.
struct InTurn {
  double itself_us = 0, dispatched_us = 0, ratio = 0;
};

// Times a plan's configuration, loaded as for a trial, and the plan, on the same inputs, in rounds of both:
// each comes first in every other round. Before each the device rests, as one that works for long may be
// slowed down to keep within its power, and then works for a moment, as it is slow at first.
InTurn time_beside_itself(Plan& plan, const Place& place) {
  const std::unique_ptr<Device> device = open_device(place.device);
  const Problem problem = plan.problem();
  Tensors tensors(*device, problem);
  fill_tensors(*device, problem, tensors.buffers, Distribution::uniform, 1);
  const KernelFamily& family = *find_family(device->info().backend, plan.description().family);
  const Configuration configuration = plan.description().configuration;
  std::unique_ptr<Executable> itself;
  if (family.builtin()) {
    itself = family.create_builtin(problem, configuration, *device);
  } else {
    const KernelInstance instance = family.instantiate(problem, configuration, device->info());
    itself =
        device->load(instance, CodeCache(place.folder / "code").get_or_compile(instance, device->info()));
  }
  const auto packed = device->allocate(itself->packed_bytes(), "packed weights");
  const auto workspace = device->allocate(itself->workspace_bytes(), "workspace");
  tensors.buffers.packed = packed->data();
  tensors.buffers.workspace = workspace->data();
  itself->prepare(tensors.buffers, nullptr);
  plan.prepare(tensors.parameters);
  const std::unique_ptr<Executable> dispatched = cli::executable_of(plan);
  TimingOptions options;
  options.max_seconds = 0.1;
  const auto time = [&](Executable& executable) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    for (const auto begin = Clock::now(); seconds_since(begin) < 0.02; device->synchronize())
      executable.run(tensors.buffers, nullptr);
    return device->time(executable, tensors.buffers, options).summary_us;
  };
  std::array<std::vector<double>, 3> rounds;
  for (int round = 0; round < 6; ++round) {
    double alone = 0, through = 0;
    if (round % 2 == 0) {
      alone = time(*itself);
      through = time(*dispatched);
    } else {
      through = time(*dispatched);
      alone = time(*itself);
    }
    rounds[0].push_back(alone);
    rounds[1].push_back(through);
    rounds[2].push_back(through / alone);
  }
  return {median(rounds[0]), median(rounds[1]), median(rounds[2])};
}

// Every problem on record: its first plan in a new process, and its time through the library against that of
// its configuration by itself in this run, and the one that the tuner measured.
void bench_dispatched(Place place) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // it takes minutes
  fmt::print("\n{:<40}{:>14}{:>14}{:>14}{:>10}  {}\n", "on record", "stored", "itself now", "dispatched",
             "goal 1%", "first plan in a new process");
  const Store store = Store::open(place.database, Store::Mode::read_only);
  Dispatcher dispatcher(place.options());
  for (const auto& [id, record] : store.problems()) {
    place.line = record.line;
    try {
      Plan plan = dispatcher.plan(place.line, {.allow = {Provenance::exact}});
      const double stored = plan.description().predicted_us.value();
      const InTurn now = time_beside_itself(plan, place);
      const Steps steps = measure_process(place, "first-plan", 5);
      const bool stored_code = of(steps, "stored code") == 1;
      fmt::print("{:<40.38}{:>11.2f} us{:>11.2f} us{:>11.2f} us{:>+9.1f}%  {:.2f} ms, {}\n", record.line,
                 stored, now.itself_us, now.dispatched_us, 100 * (now.ratio - 1), first_plan_ms(steps),
                 stored_code ? "stored code" : "no stored code");
      if (stored_code) fmt::print("  {}\n", tell_parts(steps, measure_process(place, "first-plan-parts", 5)));
    } catch (const UserError& error) {
      fmt::print("{:<40.38}{}\n", record.line, error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 5) {
    const Place place{arguments[1], arguments[2], arguments[3], arguments[4]};
    if (arguments[0] == "first-plan") return first_plan(place);
    if (arguments[0] == "first-plan-parts") return first_plan_parts(place);
  }
  if (arguments.size() > 2 || (!arguments.empty() && arguments[0].starts_with('-')))
    throw UserError("usage: knobwise_runtime_bench [device=cpu] [DB]");
  const std::string name = arguments.empty() ? "cpu" : arguments[0];
  const std::unique_ptr<Device> device = open_device(name);
  std::filesystem::path stored;
  if (arguments.size() > 1) {
    stored = std::filesystem::absolute(arguments[1]);
    if (Store::open(stored, Store::Mode::read_only).problems().empty())
      throw UserError(
          fmt::format("{}: holds no problem; fill it with `knobwise sweep --store-code`", arguments[1]));
  }
  const test::TemporaryFolder folder;
  const Place place{name, folder / "", folder / "bench.db"};
  make_database(place);
  fmt::print("{} ({}), {} processors here\n{:<52}{:>14}  {:<12}{}\n", device->info().name, place.device,
             std::thread::hardware_concurrency(), "", "measured", "goal", "the field");
  bench_plans(place);
  bench_runs(place);
  bench_first_plan(place);
  bench_memory(place);
  if (!stored.empty()) bench_dispatched({place.device, place.folder, stored});
  return 0;
} catch (const UserError& error) {
  fmt::print(stderr, "knobwise_runtime_bench: {}\n", error.what());
  return 2;
} catch (const std::exception& error) {
  fmt::print(stderr, "knobwise_runtime_bench: {}\n", error.what());
  return 1;
}
