// Tensor elements of any type as double, and back. Types are DType as a number: 0 fp32, 1 fp16, 2 bf16; 3 is
// fp64.

namespace knobwise {

constexpr int kF32 = 0, kF16 = 1, kBF16 = 2, kF64 = 3;

__device__ inline double load_element(const void* data, int dtype, long long i) {
  if (dtype == kF64) return static_cast<const double*>(data)[i];
  if (dtype == kF32) return static_cast<const float*>(data)[i];
  const unsigned short bits = static_cast<const unsigned short*>(data)[i];
  if (dtype == kBF16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
  double value;
  asm("cvt.f64.f16 %0, %1;" : "=d"(value) : "h"(bits));
  return value;
}

// To nearest, ties to even; to the 16-bit types by way of float, as store_element() of kernels/operands.h
// does.
__device__ inline void store_element(void* data, int dtype, long long i, double value) {
  const float single = static_cast<float>(value);
  unsigned short bits = 0;
  if (dtype == kF64) {
    static_cast<double*>(data)[i] = value;
    return;
  }
  if (dtype == kF32) {
    static_cast<float*>(data)[i] = single;
    return;
  }
  if (dtype == kF16) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(single));
  } else {
    const unsigned word = __float_as_uint(single);
    bits = (single != single ? word | 0x400000 : word + 0x7FFF + (word >> 16 & 1)) >> 16;
  }
  static_cast<unsigned short*>(data)[i] = bits;
}

__device__ inline long long global_thread() {
  return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline long long global_threads() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

}  // namespace knobwise
