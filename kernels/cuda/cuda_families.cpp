#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/direct_conv_family.h"
#include "kernels/cuda/implicit_gemm_family.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "kernels/cuda/reference_family.h"
#include "kernels/cuda/unfused_epilogue.h"
#include "kernels/vendor/cudnn.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {

const std::vector<const KernelFamily*>& cuda_families() {
  const auto unfused = [](const KernelFamily& family) { return new UnfusedEpilogue(family); };
  static const auto& families = never_destroyed(std::vector<const KernelFamily*>{
      unfused(cuda_direct_conv_family()), unfused(cuda_implicit_gemm_family()),
      unfused(cuda_implicit_gemm_sm90_family()), &cudnn_family(), &cuda_reference_family()});
  return families;
}

}  // namespace knobwise
