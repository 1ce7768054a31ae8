#include "kernels/cuda/cuda_arguments.h"

#include <fmt/format.h>

#include <cstdint>

namespace knobwise {
namespace {

// The driver writes into each what the attribute's type needs; what it does not know stays 0.
struct PointerFacts {
  std::uint64_t memory_type = 0;
  std::uint64_t ordinal = 0;
  std::uint64_t context = 0;
  std::uint64_t managed = 0;
  std::uint64_t mapped_at = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

std::optional<PointerFacts> facts_of(CUdeviceptr address) {
  PointerFacts facts;
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_IS_MANAGED,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
      CU_POINTER_ATTRIBUTE_RANGE_SIZE,
  };
  void* values[] = {&facts.memory_type, &facts.ordinal, &facts.context, &facts.managed,
                    &facts.mapped_at,   &facts.begin,   &facts.size};
  if (driver().cuPointerGetAttributes(std::size(attributes), attributes, values, address) != CUDA_SUCCESS)
    return std::nullopt;
  return facts;
}

}  // namespace

std::optional<std::string> cuda_memory_problem(const CudaContext& context, const void* data,
                                               std::size_t bytes) {
  const CudaContext::Scope scope(context);
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const std::optional<PointerFacts> facts = facts_of(address);
  if (!facts || facts->memory_type == 0)
    return "no device memory but the host's; copy it to the device first (cudaMalloc, cudaMemcpy)";
  if (facts->memory_type == CU_MEMORYTYPE_HOST && facts->mapped_at != address)
    return "host memory that the device does not see at this address; hand its device pointer";
  if (facts->memory_type == CU_MEMORYTYPE_DEVICE && !facts->managed) {
    if (facts->ordinal != static_cast<std::uint64_t>(context.device()))
      return fmt::format("memory of cuda:{}, but the plan runs on cuda:{}", facts->ordinal,
                         context.info().ordinal);
    // Memory of a pool or of the virtual memory calls has no context.
    if (facts->context != 0 && facts->context != reinterpret_cast<std::uint64_t>(context.handle()))
      return "memory of another context than the device's primary one, which the CUDA run time uses";
  }
  if (facts->size != 0 && address + bytes > facts->begin + facts->size)
    return fmt::format("{} bytes needed, but its allocation ends after {}", bytes,
                       facts->begin + facts->size - address);
  return std::nullopt;
}

std::optional<std::string> cuda_stream_problem(const CudaContext& context, Stream stream) {
  const auto handle = static_cast<CUstream>(stream);
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) return std::nullopt;
  const CudaContext::Scope scope(context);
  CUcontext owner = nullptr;
  const CUresult result = driver().cuStreamGetCtx(handle, &owner);
  // A stream of a green context has none of its own.
  if (result == CUDA_ERROR_NOT_SUPPORTED) return std::nullopt;
  if (result != CUDA_SUCCESS) return "no usable stream: " + describe_failure(result, "cuStreamGetCtx");
  if (owner != context.handle())
    return fmt::format("a stream of another device or context; the plan runs on cuda:{}",
                       context.info().ordinal);
  return std::nullopt;
}

}  // namespace knobwise
