#include "kernels/cuda/tensor_map.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace knobwise {
namespace {

constexpr std::size_t kMostDimensions = 5;

CUtensorMapDataType type_of(DType dtype) {
  return dtype == DType::f32   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
         : dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                               : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

CUtensorMap encode(const TensorMap& map) {
  if (!driver().cuTensorMapEncodeTiled || !driver().cuTensorMapReplaceAddress)
    throw TrialError("unsupported", "the CUDA driver is older than 12.0 and makes no tensor maps");
  std::array<cuuint64_t, kMostDimensions> strides{};  // in bytes, of all dimensions but the fastest
  cuuint64_t stride = size_of(map.dtype);
  for (std::size_t i = 0; i + 1 < map.extents.size(); ++i) strides.at(i) = stride *= map.extents[i];
  // Any address: each run has its own.
  void* const address = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
  const std::vector<cuuint64_t> extents(map.extents.begin(), map.extents.end());
  CUtensorMap encoded;
  const CUresult result = driver().cuTensorMapEncodeTiled(
      &encoded, type_of(map.dtype), static_cast<cuuint32_t>(extents.size()), address, extents.data(),
      strides.data(), map.box.data(), map.steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw TrialError("unsupported", describe_failure(result, "cuTensorMapEncodeTiled"));
  return encoded;
}

}  // namespace

TensorMapArgument::TensorMapArgument(const CudaContext& context, const TensorMap& map)
    : argument_(map.argument) {
  const CudaContext::Scope scope(context);
  const CUtensorMap encoded = encode(map);
  std::memcpy(map_.data(), &encoded, sizeof encoded);
}

CUtensorMap TensorMapArgument::at(void* address) const {
  CUtensorMap map;
  std::memcpy(&map, map_.data(), sizeof map);
  const CUresult result = driver().cuTensorMapReplaceAddress(&map, address);
  if (result != CUDA_SUCCESS)
    throw TrialError("launch_failed", describe_failure(result, "cuTensorMapReplaceAddress"));
  return map;
}

}  // namespace knobwise
