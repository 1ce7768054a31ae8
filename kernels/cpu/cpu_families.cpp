#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/direct_conv_family.h"
#include "kernels/cpu_reference.h"
#include "kernels/vendor/onednn.h"
#include "search_spaces/never_destroyed.h"

namespace knobwise {

const std::vector<const KernelFamily*>& cpu_families() {
  static const auto& families = never_destroyed(
      std::vector<const KernelFamily*>{&cpu_direct_conv_family(), &onednn_family(), &cpu_reference_family()});
  return families;
}

}  // namespace knobwise
