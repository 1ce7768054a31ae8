#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/reference_family.h"
#if __has_include("kernels/cuda/direct_conv_family.h")
#include "kernels/cuda/direct_conv_family.h"
#endif

namespace knobwise {

const std::vector<const KernelFamily*>& cuda_families() {
  static const std::vector<const KernelFamily*> families = {
#if __has_include("kernels/cuda/direct_conv_family.h")
    &cuda_direct_conv_family(),
#endif
    &cuda_reference_family()
  };
  return families;
}

}  // namespace knobwise
