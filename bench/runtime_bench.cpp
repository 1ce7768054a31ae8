// What asking and running through the runtime costs on the host. KNOBWISE_BENCH_DEVICE chooses the device
// ("cpu").
//
// For scale, as their makers or users report it: oneDNN's primitive cache hit ~5 us, cuDNN building a graph
// for a new shape 65-260 ms, a Triton launch 3-6 us.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <memory>

#include "include/knobwise/dispatcher.h"
#include "kernels/device.h"
#include "kernels/family.h"

namespace {

using namespace knobwise;

constexpr const char* kLine = "conv2d n=1 c=1 h=3 w=3 k=1 r=3 s=3 bias | div 2 | leaky_relu 0.01";

std::string device_name() {
  const char* name = std::getenv("KNOBWISE_BENCH_DEVICE");
  return name ? name : "cpu";
}

DispatcherOptions options() {
  return {.databases = {}, .device = device_name(), .on_new_plan = [](const PlanDescription&) {}};
}

Dispatcher& dispatcher() {
  static Dispatcher instance = [] {
    Dispatcher made(options());
    made.plan(kLine);  // so that no measurement includes the first time
    return made;
  }();
  return instance;
}

void warm_plan_by_key(benchmark::State& state) {
  const PlanKey key(Problem::parse(kLine));
  for (auto _ : state) benchmark::DoNotOptimize(dispatcher().plan(key));
}
BENCHMARK(warm_plan_by_key)->ThreadRange(1, 16)->UseRealTime();

void warm_plan_by_problem(benchmark::State& state) {
  const Problem problem = Problem::parse(kLine);
  const Requirement requirement;
  for (auto _ : state) benchmark::DoNotOptimize(dispatcher().plan(problem, requirement));
}
BENCHMARK(warm_plan_by_problem)->ThreadRange(1, 16)->UseRealTime();

void warm_plan_by_line(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(dispatcher().plan(kLine));
}
BENCHMARK(warm_plan_by_line);

// A new dispatcher whose code is in the cache on disk: opening, deciding and verifying.
void first_plan_with_cached_code(benchmark::State& state) {
  dispatcher().plan(kLine);
  for (auto _ : state) {
    Dispatcher fresh(options());
    benchmark::DoNotOptimize(fresh.plan(kLine));
  }
}
BENCHMARK(first_plan_with_cached_code)->Unit(benchmark::kMillisecond);

// One tiny problem's tensors in device memory.
struct Tensors {
  std::unique_ptr<Device> device = open_device(device_name());
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  Buffers buffers;
  std::vector<ConstBuffer> parameters;

  explicit Tensors(const Problem& problem) {
    const auto tensor = [&](std::int64_t elements) {
      memory.push_back(device->allocate(static_cast<std::size_t>(elements) * 4, "tensor"));
      device->fill_bytes(memory.back()->data(), 0, static_cast<std::size_t>(elements) * 4);
      return memory.back()->data();
    };
    buffers.input = tensor(problem.input_extents().elements());
    buffers.output = tensor(problem.output_extents().elements());
    for (const ParameterSpec& spec : problem.parameters()) {
      buffers.parameters.push_back(tensor(spec.elements()));
      parameters.emplace_back(buffers.parameters.back(), static_cast<std::size_t>(spec.elements()) * 4);
    }
  }
};

// On CUDA these count the launch alone: the queue is emptied outside the timed part.
template <class Run>
void time_runs(benchmark::State& state, Device& device, Run run) {
  run();
  int queued = 0;
  for (auto _ : state) {
    run();
    if (++queued % 256 == 0) {
      state.PauseTiming();
      device.synchronize();
      state.ResumeTiming();
    }
  }
  device.synchronize();
}

void run_through_plan(benchmark::State& state) {
  Plan plan = dispatcher().plan(kLine);
  Tensors tensors(plan.problem());
  plan.prepare(tensors.parameters);
  time_runs(state, *tensors.device, [&] {
    plan.run({tensors.buffers.input, plan.input_bytes()}, {tensors.buffers.output, plan.output_bytes()});
  });
}
BENCHMARK(run_through_plan);

// The same executable without the plan around it.
void run_bare(benchmark::State& state) {
  const PlanDescription description = dispatcher().plan(kLine).description();
  const Problem problem = Problem::parse(kLine);
  Tensors tensors(problem);
  Device& device = *tensors.device;
  const KernelFamily* family = find_family(device.info().backend, description.family);
  const KernelInstance instance = family->instantiate(problem, description.configuration, device.info());
  const auto executable = device.load(instance, compile(instance, device.info()));
  const auto packed = device.allocate(std::max<std::size_t>(1, executable->packed_bytes()), "packed");
  const auto scratch = device.allocate(std::max<std::size_t>(1, executable->workspace_bytes()), "workspace");
  tensors.buffers.packed = packed->data();
  tensors.buffers.workspace = scratch->data();
  executable->prepare(tensors.buffers, nullptr);
  time_runs(state, device, [&] { executable->run(tensors.buffers, nullptr); });
}
BENCHMARK(run_bare);

}  // namespace

BENCHMARK_MAIN();
