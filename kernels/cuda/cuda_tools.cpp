#include "kernels/cuda/cuda_tools.h"

#include <vector>

#include "kernels/cuda/device_source.h"
#include "kernels/cuda/error_sums.h"
#include "kernels/cuda/nvrtc.h"

namespace knobwise {
namespace {

constexpr std::uint32_t kThreads = 256;
constexpr std::uint32_t kBlocksPerMultiprocessor = 8;

std::string compile_tools(const DeviceInfo& info) {
  const std::string source = device_source("operand_values.h") + device_source("error_sums.h") +
                             device_source("element.cuh") + device_source("device_tools.cuh");
  // No contraction: fills must have the bits that the host computes.
  return nvrtc_compile(source, {"--gpu-architecture=" + nvrtc_architecture(info.compute_capability),
                                "--std=c++17", "--fmad=false"})
      .cubin;
}

}  // namespace

CudaTools::CudaTools(Device& device, const std::shared_ptr<const CudaContext>& context)
    : module_(context, compile_tools(context->info())), device_(device) {
  const LaunchExtents grid{
      kBlocksPerMultiprocessor * static_cast<std::uint32_t>(context->info().multiprocessors), 1, 1};
  const LaunchExtents block{kThreads, 1, 1};
  fill_ = module_.kernel("kw_fill", grid, block);
  digest_ = module_.kernel("kw_digest", grid, block);
  compare_ = module_.kernel("kw_compare", grid, block);
  scratch_ = device.allocate(grid[0] * sizeof(ErrorSums), "verification results");
}

void CudaTools::fill(void* data, DType dtype, std::int64_t elements, const OperandFill& fill) {
  const CudaContext::Scope scope(module_.context());
  int type = static_cast<int>(dtype), kind = static_cast<int>(fill.kind);
  OperandFill copy = fill;
  void* arguments[] = {&data, &type, &elements, &kind, &copy.seed, &copy.low, &copy.high};
  module_.launch(fill_, arguments, nullptr);
}

std::uint64_t CudaTools::digest(const void* data, DType dtype, std::int64_t elements) {
  void* sum = scratch_->data();
  device_.fill_bytes(sum, 0, sizeof(std::uint64_t));
  {
    const CudaContext::Scope scope(module_.context());
    int element_bytes = static_cast<int>(size_of(dtype));
    void* arguments[] = {&data, &element_bytes, &elements, &sum};
    module_.launch(digest_, arguments, nullptr);
  }
  std::uint64_t result = 0;
  device_.download(&result, sum, sizeof result);
  return result;
}

void CudaTools::compare(const void* out, DType dtype, const double* reference, std::int64_t elements,
                        ErrorSums& sums) {
  void* partial = scratch_->data();
  {
    const CudaContext::Scope scope(module_.context());
    int type = static_cast<int>(dtype);
    void* arguments[] = {&out, &type, &reference, &elements, &partial};
    module_.launch(compare_, arguments, nullptr);
  }
  std::vector<ErrorSums> blocks(compare_.grid[0]);
  device_.download(blocks.data(), partial, blocks.size() * sizeof(ErrorSums));
  for (const ErrorSums& block : blocks) merge_errors(sums, block);
}

}  // namespace knobwise
