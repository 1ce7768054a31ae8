#include "kernels/cuda/cuda_device.h"

#include <fmt/format.h>

#include "kernels/cuda/cuda_arguments.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_executable.h"
#include "kernels/cuda/cuda_timer.h"
#include "kernels/cuda/cuda_tools.h"
#include "kernels/cuda/cuda_verifier.h"
#include "kernels/cuda/nvml.h"
#include "kernels/cuda/nvrtc.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

class CudaBuffer final : public DeviceBuffer {
 public:
  CudaBuffer(std::shared_ptr<const CudaContext> context, CUdeviceptr address, std::size_t bytes)
      : context_(std::move(context)), address_(address), bytes_(bytes) {}
  ~CudaBuffer() override {
    if (!context_->alive()) return;
    const CudaContext::Scope scope(*context_);
    driver().cuMemFree(address_);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void* data() const override { return reinterpret_cast<void*>(address_); }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::shared_ptr<const CudaContext> context_;
  CUdeviceptr address_;
  std::size_t bytes_;
};

}  // namespace

CudaDevice::CudaDevice(int ordinal) : context_(std::make_shared<const CudaContext>(ordinal)) {}

CudaDevice::~CudaDevice() = default;

CudaTools& CudaDevice::tools() {
  if (!tools_) tools_ = std::make_unique<CudaTools>(*this, context_);
  return *tools_;
}

CudaTimer& CudaDevice::timer() {
  if (!timer_) timer_ = std::make_unique<CudaTimer>(*this, context_);
  return *timer_;
}

std::unique_ptr<DeviceBuffer> CudaDevice::allocate(std::size_t bytes, std::string_view purpose) {
  const CudaContext::Scope scope(*context_);
  CUdeviceptr address = 0;
  const std::size_t wanted = bytes == 0 ? 1 : bytes;
  CUresult result = driver().cuMemAlloc(&address, wanted);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && verifier_) {
    verifier_->forget();
    result = driver().cuMemAlloc(&address, wanted);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t free = 0, total = 0;
    context_->check(driver().cuMemGetInfo(&free, &total), "cuMemGetInfo");
    throw UserError(
        fmt::format("{} needs {:.2f} GB of device memory, but {:.2f} GB of the {:.2f} GB of {} are free; "
                    "choose a smaller problem",
                    purpose, static_cast<double>(bytes) / 1e9, static_cast<double>(free) / 1e9,
                    static_cast<double>(total) / 1e9, info().name));
  }
  context_->check(result, "cuMemAlloc");
  return std::make_unique<CudaBuffer>(context_, address, bytes);
}

void CudaDevice::upload(void* device, const void* host, std::size_t bytes) {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuMemcpyHtoD(address_of(device), host, bytes), "cuMemcpyHtoD");
}

void CudaDevice::download(void* host, const void* device, std::size_t bytes) {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuMemcpyDtoH(host, address_of(device), bytes), "cuMemcpyDtoH");
}

void CudaDevice::fill_bytes(void* device, unsigned char value, std::size_t bytes) {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuMemsetD8(address_of(device), value, bytes), "cuMemsetD8");
}

std::optional<std::string> CudaDevice::memory_problem(const void* data, std::size_t bytes, Access) const {
  return cuda_memory_problem(*context_, data, bytes);
}

std::optional<std::string> CudaDevice::stream_problem(Stream stream) const {
  return cuda_stream_problem(*context_, stream);
}

void CudaDevice::synchronize() {
  const CudaContext::Scope scope(*context_);
  context_->check(driver().cuCtxSynchronize(), "cuCtxSynchronize");
}

void CudaDevice::fill_operand(void* device, DType dtype, std::int64_t elements, const OperandFill& fill) {
  tools().fill(device, dtype, elements, fill);
  synchronize();
}

void CudaDevice::forget_references() {
  verifier_.reset();
}

ErrorMetrics CudaDevice::verify(const Problem& problem, const Buffers& buffers, const OutputTile&,
                                std::uint64_t) {
  if (!verifier_) verifier_ = std::make_unique<CudaVerifier>(*this, tools());
  return verifier_->verify(problem, buffers);
}

std::unique_ptr<Executable> CudaDevice::load(const KernelInstance& instance, const CompiledCode& code) {
  return std::make_unique<CudaExecutable>(context_, instance, code);
}

Timing CudaDevice::time(Executable& executable, const Buffers& buffers, const TimingOptions& options) {
  return timer().time([&](Stream stream) { executable.run(buffers, stream); }, options);
}

DeviceState CudaDevice::state() {
  char address[32] = {};
  context_->check(driver().cuDeviceGetPCIBusId(address, sizeof address, context_->device()),
                  "cuDeviceGetPCIBusId");
  return nvml_state(address);
}

std::unique_ptr<Device> open_cuda_device(int ordinal) {
  return std::make_unique<CudaDevice>(ordinal);
}

std::vector<DeviceInfo> cuda_device_infos(std::vector<std::string>* notes) {
  const auto note = [notes](const std::string& line) {
    if (notes) notes->push_back(line);
  };
  std::vector<DeviceInfo> infos;
  if (!find_driver()) {
    note(driver_problem());
    return infos;
  }
  int count = 0;
  if (const CUresult result = driver().cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    note(describe_failure(result, "cuDeviceGetCount"));
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) infos.push_back(cuda_device_info(ordinal));
  if (infos.empty()) note("the CUDA driver sees no device");
  // Loading the compiler takes long: only for who reads the notes.
  if (notes && !nvrtc_problem().empty()) note(nvrtc_problem());
  return infos;
}

}  // namespace knobwise
