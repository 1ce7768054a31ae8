// The backend's interface in a build without the CUDA toolkit's headers.
#include "kernels/cuda/cuda_backend.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr const char* kReason = "no CUDA backend: this program was built without the CUDA toolkit's headers";

}  // namespace

const std::vector<const KernelFamily*>& cuda_families() {
  static const std::vector<const KernelFamily*> none;
  return none;
}

CompiledCode cuda_compile(const KernelInstance&, const DeviceInfo&) {
  throw UserError(kReason);
}

std::string cuda_compile_options(const DeviceInfo&) {
  throw UserError(kReason);
}

std::vector<CeilingProbe> cuda_ceiling_probes(const DeviceInfo&) {
  throw UserError(kReason);
}

std::vector<DeviceInfo> cuda_device_infos(std::vector<std::string>* notes) {
  if (notes) notes->push_back(kReason);
  return {};
}

std::unique_ptr<Device> open_cuda_device(int) {
  throw UserError(kReason);
}

}  // namespace knobwise
