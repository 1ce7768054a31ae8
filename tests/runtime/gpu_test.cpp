// What callers do on a real GPU, right and wrong: streams, graphs, threads, pointers of all kinds.
#include <cuda.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "include/knobwise/dispatcher.h"
#include "include/knobwise/knobwise.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/shared_library.h"
#include "kernels/device.h"
#include "kernels/operands.h"
#include "tests/runtime/allocation_count.h"
#include "tests/runtime/message_of.h"

namespace knobwise::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLine = "conv2d n=2 c=8 h=20 w=20 k=16 r=3 s=3 bias | div 2 | leaky_relu 0.01";

// Calls that only an application makes, under the names that the driver gives them.
template <class Function>
Function* call(const char* name) {
  static const SharedLibrary library({"libcuda.so.1"}, {});
  return library.find<Function*>(name);
}

void succeed(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(describe_failure(result, what));
}

// The device's primary context, current for the scope, as an application with the CUDA run time has it.
class Current {
 public:
  explicit Current(int device) : device_(device) {
    succeed(driver().cuDevicePrimaryCtxRetain(&context_, device), "retain");
    succeed(driver().cuCtxPushCurrent(context_), "push");
  }
  ~Current() {
    CUcontext popped = nullptr;
    driver().cuCtxPopCurrent(&popped);
    driver().cuDevicePrimaryCtxRelease(device_);
  }

 private:
  int device_;
  CUcontext context_ = nullptr;
};

class GpuRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::string> notes;
    devices_ = static_cast<int>(list_devices(&notes).size()) - 1;
    if (devices_ < 1) GTEST_SKIP() << (notes.empty() ? "no CUDA device" : notes.front());
    device_ = open_device("cuda:0");
    folder_ = std::filesystem::temp_directory_path() / ("knobwise-gpu-runtime-" + std::to_string(getpid()));
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  Dispatcher open(const std::string& name = "cuda:0") {
    return Dispatcher(
        {.databases = {}, .device = name, .code_cache = folder_, .on_new_plan = [](const PlanDescription&) {
         }});
  }

  /// Tensors of a problem with contents, and the plan prepared with them.
  struct Run {
    Run(Device& device, Plan made) : device(device), plan(std::move(made)) {
      const Problem& problem = plan.problem();
      buffers.input = tensor(problem.input_extents().elements(), -1);
      buffers.output = tensor(problem.output_extents().elements(), -1);
      for (const ParameterSpec& spec : problem.parameters()) {
        buffers.parameters.push_back(tensor(spec.elements(), static_cast<int>(parameters.size())));
        parameters.emplace_back(buffers.parameters.back(), static_cast<std::size_t>(spec.elements()) * 4);
      }
      poison();
    }
    void* tensor(std::int64_t elements, int parameter) {
      void* data =
          memory.emplace_back(device.allocate(static_cast<std::size_t>(elements) * 4, "test"))->data();
      device.fill_operand(data, DType::f32, elements,
                          operand_fill(plan.problem(), Distribution::normal, 3, parameter));
      return data;
    }
    void poison() {
      device.fill_bytes(buffers.output, 0xFF, plan.output_bytes());
      device.synchronize();
    }
    ConstBuffer input() const { return {buffers.input, plan.input_bytes()}; }
    MutableBuffer output() const { return {buffers.output, plan.output_bytes()}; }
    bool right() {
      device.synchronize();
      return AccuracyRequirement::parse("allclose")
          .accepts(device.verify(plan.problem(), buffers, OutputTile{}, 3));
    }

    Device& device;
    Plan plan;
    std::vector<std::unique_ptr<DeviceBuffer>> memory;
    std::vector<ConstBuffer> parameters;
    Buffers buffers;
  };

  int devices_ = 0;
  std::unique_ptr<Device> device_;
  std::filesystem::path folder_;
};

TEST_F(GpuRuntimeTest, RunsAreCapturedIntoAGraph) {
  for (const Provenance step : {Provenance::family_default, Provenance::vendor, Provenance::reference}) {
    Dispatcher dispatcher = open();
    std::optional<Plan> plan;
    try {
      plan = dispatcher.plan(kLine, {.allow = {step}});
    } catch (const UserError&) {
      continue;  // the vendor's library need not be there
    }
    Run run(*device_, std::move(*plan));
    run.plan.prepare(run.parameters);
    const Current context(0);
    CUstream stream = nullptr;
    succeed(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    run.plan.run(run.input(), run.output(), stream);  // the first may allocate a workspace
    succeed(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
    run.poison();
    CUgraph graph = nullptr;
    CUgraphExec launchable = nullptr;
    succeed(driver().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
    run.plan.run(run.input(), run.output(), stream);
    succeed(driver().cuStreamEndCapture(stream, &graph), "end");
    succeed(driver().cuGraphInstantiateWithFlags(&launchable, graph, 0), "instantiate");
    for (int i = 0; i < 3; ++i) {
      run.poison();
      succeed(driver().cuGraphLaunch(launchable, stream), "launch");
      succeed(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
      EXPECT_TRUE(run.right()) << run.plan.description().to_string();
    }
    driver().cuGraphExecDestroy(launchable);
    driver().cuGraphDestroy(graph);
    driver().cuStreamDestroy(stream);
  }
}

TEST_F(GpuRuntimeTest, LaterRunsAllocateNothingOnTheHost) {
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  run.plan.run(run.input(), run.output());
  const std::size_t before = allocation_count();
  for (int i = 0; i < 100; ++i) run.plan.run(run.input(), run.output());
  EXPECT_EQ(allocation_count(), before);
  EXPECT_TRUE(run.right());
}

TEST_F(GpuRuntimeTest, VerifyingAPlanKeepsNoMemory) {
  Dispatcher dispatcher = open();
  const auto plan = [&](int width) {
    return dispatcher.plan("conv2d n=1 c=1 h=2048 w=" + std::to_string(width) + " k=8 r=1 s=1",
                           {.allow = {Provenance::family_default}});
  };
  const auto free_bytes = [] {
    const Current current(0);
    std::size_t free = 0, total = 0;
    succeed(driver().cuMemGetInfo(&free, &total), "memory");
    return static_cast<double>(free);
  };
  plan(2048);
  const double before = free_bytes();
  const std::size_t host = allocated_bytes();
  for (int i = 1; i <= 8; ++i) plan(2048 + 8 * i);
  // The float64 of one output is 268 MB; a plan's code takes up to 2 MB of the device.
  EXPECT_LT(before - free_bytes(), 64e6);
  EXPECT_LT((allocated_bytes() - host) / 8, 1024u);
}

TEST_F(GpuRuntimeTest, ThreadsRunOnePlanOnStreamsOfTheirOwn) {
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  std::vector<void*> outputs;
  for (int t = 0; t < 8; ++t)
    outputs.push_back(run.tensor(run.plan.problem().output_extents().elements(), -1));
  std::vector<std::thread> threads;
  for (void* output : outputs) {
    threads.emplace_back([&run, output] {
      const Current context(0);
      CUstream stream = nullptr;
      succeed(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      const auto workspace = std::max<std::size_t>(run.plan.workspace_bytes(), 16);
      CUdeviceptr scratch = 0;
      succeed(driver().cuMemAlloc(&scratch, workspace), "cuMemAlloc");
      for (int i = 0; i < 50; ++i)
        run.plan.run(run.input(), {output, run.plan.output_bytes()},
                     {reinterpret_cast<void*>(scratch), workspace}, stream);
      succeed(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
      driver().cuMemFree(scratch);
      driver().cuStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (void* output : outputs) {
    run.buffers.output = output;
    EXPECT_TRUE(run.right());
  }
}

TEST_F(GpuRuntimeTest, HostMemoryIsRefusedBeforeTheDeviceSeesIt) {
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  std::vector<float> host(1 << 16);
  const MutableBuffer plain(host.data(), host.size() * 4);
  EXPECT_THAT(message_of([&] {
                run.plan.prepare({{plain.data, plain.bytes}, run.parameters[1]});
              }),
              HasSubstr("weights: no device memory"));
  run.plan.prepare(run.parameters);
  EXPECT_THAT(message_of([&] {
                run.plan.run({plain.data, plain.bytes}, run.output());
              }),
              HasSubstr("input: no device memory"));
  EXPECT_THAT(message_of([&] { run.plan.run(run.input(), plain); }), HasSubstr("output: no device memory"));
  run.plan.run(run.input(), run.output());
  EXPECT_TRUE(run.right()) << "the context is unharmed";
}

TEST_F(GpuRuntimeTest, PinnedAndManagedMemoryServe) {
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  const Current context(0);
  void* pinned = nullptr;
  succeed(
      call<CUresult(void**, std::size_t, unsigned)>("cuMemHostAlloc")(&pinned, run.plan.output_bytes(), 0),
      "cuMemHostAlloc");
  CUdeviceptr managed = 0;
  succeed(call<CUresult(CUdeviceptr*, std::size_t, unsigned)>("cuMemAllocManaged")(
              &managed, run.plan.output_bytes(), CU_MEM_ATTACH_GLOBAL),
          "cuMemAllocManaged");
  std::vector<char> wanted(run.plan.output_bytes());
  run.plan.run(run.input(), run.output());
  device_->synchronize();
  device_->download(wanted.data(), run.buffers.output, wanted.size());
  for (void* output : {pinned, reinterpret_cast<void*>(managed)}) {
    run.plan.run(run.input(), {output, wanted.size()});
    device_->synchronize();
    EXPECT_EQ(std::memcmp(output, wanted.data(), wanted.size()), 0);
  }
  call<CUresult(void*)>("cuMemFreeHost")(pinned);
  driver().cuMemFree(managed);
}

TEST_F(GpuRuntimeTest, AlignmentOverlapAndTheEndOfAnAllocationAreChecked) {
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  const std::size_t in = run.plan.input_bytes(), out = run.plan.output_bytes();
  char* input = static_cast<char*>(run.buffers.input);
  EXPECT_THAT(message_of([&] { run.plan.run({input + 4, in}, run.output()); }), HasSubstr("aligned"));
  EXPECT_THAT(message_of([&] { run.plan.run(run.input(), {input + in - 16, out}); }), HasSubstr("overlap"));
  // An output of 4 MB that starts 3 MB before the end of an allocation, whose first 4 MB are the input: what
  // lies beyond the end may be anyone's memory.
  const auto large = device_->allocate(std::size_t{9} << 20, "test");
  Run big(*device_, dispatcher.plan("conv2d n=1 c=1 h=1024 w=1024 k=1 r=1 s=1"));
  big.plan.prepare(big.parameters);
  char* begin = static_cast<char*>(large->data());
  EXPECT_THAT(message_of([&] {
                big.plan.run({begin, big.plan.input_bytes()}, {begin + (6 << 20), big.plan.output_bytes()});
              }),
              HasSubstr("allocation ends"));
}

TEST_F(GpuRuntimeTest, MemoryAndStreamsOfAnotherDeviceAreRefused) {
  if (devices_ < 2) GTEST_SKIP() << "needs two GPUs";
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  const std::unique_ptr<Device> other = open_device("cuda:1");
  const auto elsewhere = other->allocate(run.plan.output_bytes(), "test");
  EXPECT_THAT(message_of([&] {
                run.plan.run(run.input(), {elsewhere->data(), run.plan.output_bytes()});
              }),
              HasSubstr("memory of cuda:1"));
  const Current context(1);
  CUstream stream = nullptr;
  succeed(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  EXPECT_THAT(message_of([&] { run.plan.run(run.input(), run.output(), stream); }), HasSubstr("stream: "));
  EXPECT_THAT(message_of([&] { run.plan.prepare(run.parameters, stream); }), HasSubstr("stream: "));
  driver().cuStreamDestroy(stream);
  // Another device's context being current on the thread does not matter.
  run.plan.prepare(run.parameters);
  run.plan.run(run.input(), run.output());
  EXPECT_TRUE(run.right());
}

TEST_F(GpuRuntimeTest, EveryDeviceServesInOneProcess) {
  for (int ordinal = 0; ordinal < devices_; ++ordinal) {
    const std::string name = "cuda:" + std::to_string(ordinal);
    const std::unique_ptr<Device> device = open_device(name);
    Dispatcher dispatcher = open(name);
    Run run(*device, dispatcher.plan(kLine));
    run.plan.prepare(run.parameters);
    run.plan.run(run.input(), run.output());
    EXPECT_TRUE(run.right()) << name;
  }
}

TEST_F(GpuRuntimeTest, AStreamAndMemoryOfAnotherContextAreRefused) {
  using Create = CUresult(CUcontext*, unsigned, CUdevice);
  auto* create = call<Create>("cuCtxCreate_v2");
  auto* destroy = call<CUresult(CUcontext)>("cuCtxDestroy_v2");
  ASSERT_TRUE(create && destroy);
  Dispatcher dispatcher = open();
  Run run(*device_, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  CUcontext foreign = nullptr;
  succeed(create(&foreign, 0, 0), "cuCtxCreate");  // becomes current
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  succeed(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  succeed(driver().cuMemAlloc(&memory, run.plan.output_bytes()), "cuMemAlloc");
  EXPECT_THAT(message_of([&] { run.plan.run(run.input(), run.output(), stream); }), HasSubstr("stream: "));
  EXPECT_THAT(message_of([&] {
                run.plan.run(run.input(), {reinterpret_cast<void*>(memory), run.plan.output_bytes()});
              }),
              HasSubstr("another context"));
  run.plan.run(run.input(), run.output());
  EXPECT_TRUE(run.right());
  destroy(foreign);
}

// In a process of its own under CTest; the last of this file otherwise, since it resets the device.
TEST_F(GpuRuntimeTest, ZAResetDeviceIsAnErrorAndANewDispatcherServes) {
  auto* reset = call<CUresult(CUdevice)>("cuDevicePrimaryCtxReset_v2");
  ASSERT_TRUE(reset);
  for (const bool opened_again : {false, true}) {
    device_ = open_device("cuda:0");
    Dispatcher dispatcher = open();
    Run run(*device_, dispatcher.plan(kLine));
    run.plan.prepare(run.parameters);
    run.plan.run(run.input(), run.output());
    device_->synchronize();
    succeed(reset(0), "cuDevicePrimaryCtxReset");
    std::unique_ptr<Device> again;
    if (opened_again) again = open_device("cuda:0");
    EXPECT_THROW(run.plan.run(run.input(), run.output()), std::runtime_error);
    EXPECT_THROW(run.plan.prepare(run.parameters), std::runtime_error);
  }
  const std::unique_ptr<Device> fresh_device = open_device("cuda:0");
  Dispatcher dispatcher = open();
  Run run(*fresh_device, dispatcher.plan(kLine));
  run.plan.prepare(run.parameters);
  run.plan.run(run.input(), run.output());
  EXPECT_TRUE(run.right());
}

}  // namespace
}  // namespace knobwise::test
