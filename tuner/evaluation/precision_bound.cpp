#include "tuner/evaluation/precision_bound.h"

#include <algorithm>

namespace knobwise {
namespace {

double mode_bound(std::string_view precision) {
  if (precision == "fp64" || precision == "fp32") return 2e-5;
  if (precision == "tf32x3" || precision == "bf16x3" || precision == "fp16x3" || precision == "fp16_e5m2")
    return 1e-4;
  if (precision == "tf32" || precision == "fp16") return 2e-3;
  return 1.6e-2;
}

double rounding_bound(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 2e-3;
    case DType::bf16:
      return 1.6e-2;
  }
  return 0;
}

}  // namespace

double precision_bound(std::string_view precision, DType dtype) {
  return std::max(mode_bound(precision), rounding_bound(dtype));
}

}  // namespace knobwise
