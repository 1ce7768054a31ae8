#include "kernels/cuda/cuda_timer.h"

#include <algorithm>

#include "kernels/timing.h"

namespace knobwise {
namespace {

constexpr std::int64_t kLeastFlushBytes = std::int64_t{256} << 20;

struct GraphDeleter {
  void operator()(CUgraph graph) const { driver().cuGraphDestroy(graph); }
  void operator()(CUgraphExec graph) const { driver().cuGraphExecDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraph_st, GraphDeleter>;
using GraphExecutable = std::unique_ptr<CUgraphExec_st, GraphDeleter>;

// One run as a graph; null if the work cannot be captured.
GraphExecutable capture(const std::function<void(Stream)>& work, CUstream stream,
                        const CudaContext& context) {
  context.check(driver().cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                "cuStreamBeginCapture");
  bool queued = true;
  try {
    work(stream);
  } catch (const TrialError&) {
    queued = false;  // Run directly, it either works or throws again.
  }
  CUgraph raw = nullptr;
  const CUresult ended = driver().cuStreamEndCapture(stream, &raw);
  const Graph graph(raw);
  if (!queued || ended != CUDA_SUCCESS || !graph) return nullptr;
  CUgraphExec executable = nullptr;
  if (driver().cuGraphInstantiateWithFlags(&executable, graph.get(), 0) != CUDA_SUCCESS) return nullptr;
  return GraphExecutable(executable);
}

}  // namespace

CudaTimer::CudaTimer(Device& device, std::shared_ptr<const CudaContext> context)
    : context_(std::move(context)) {
  const std::int64_t bytes = std::max(4 * context_->info().l2_bytes, kLeastFlushBytes);
  flushed_ = device.allocate(static_cast<std::size_t>(bytes), "the buffer that flushes the L2 cache");
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  context_->check(driver().cuEventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
  context_->check(driver().cuEventCreate(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
}

CudaTimer::~CudaTimer() {
  if (!context_->alive()) return;
  const CudaContext::Scope scope(*context_);
  driver().cuEventDestroy(start_);
  driver().cuEventDestroy(stop_);
  driver().cuStreamDestroy(stream_);
}

float CudaTimer::sample_us(const std::function<void()>& replay) {
  const auto check = [this](CUresult result, const char* call) { context_->check(result, call); };
  const auto address = reinterpret_cast<CUdeviceptr>(flushed_->data());
  check(driver().cuMemsetD8Async(address, 0, flushed_->bytes(), stream_), "cuMemsetD8Async");
  check(driver().cuEventRecord(start_, stream_), "cuEventRecord");
  replay();
  check(driver().cuEventRecord(stop_, stream_), "cuEventRecord");
  check(driver().cuEventSynchronize(stop_), "cuEventSynchronize");
  float milliseconds = 0;
  check(driver().cuEventElapsedTime(&milliseconds, start_, stop_), "cuEventElapsedTime");
  return 1000 * milliseconds;
}

Timing CudaTimer::time(const std::function<void(Stream)>& work, const TimingOptions& options) {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
  const GraphExecutable graph = capture(work, stream_, *context_);
  const std::function<void()> replay = [&] {
    if (graph) {
      context_->check(driver().cuGraphLaunch(graph.get(), stream_), "cuGraphLaunch");
    } else {
      work(stream_);
    }
  };
  return sample_runs([&] { return static_cast<double>(sample_us(replay)); }, options, Backend::cuda);
}

}  // namespace knobwise
