#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/direct_conv_family.h"
#include "kernels/cuda/implicit_gemm_family.h"
#include "kernels/cuda/implicit_gemm_sm90_family.h"
#include "kernels/cuda/reference_family.h"
#include "kernels/cuda/unfused_epilogue.h"
#include "kernels/vendor/cudnn.h"

namespace knobwise {

const std::vector<const KernelFamily*>& cuda_families() {
  static const UnfusedEpilogue direct(cuda_direct_conv_family()), gemm(cuda_implicit_gemm_family()),
      gemm_sm90(cuda_implicit_gemm_sm90_family());
  static const std::vector<const KernelFamily*> families = {&direct, &gemm, &gemm_sm90, &cudnn_family(),
                                                            &cuda_reference_family()};
  return families;
}

}  // namespace knobwise
