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

// Rounds to a 16-bit format with `mantissa` explicit bits and exponent bias `bias` (fp16: 10, 15; bf16: 7,
// 127), to nearest, ties to even, in one rounding: the hardware's conversions from double do not cover bf16
// everywhere.
__device__ inline unsigned short round_to_16(double value, int mantissa, int bias) {
  const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(value));
  const unsigned sign = static_cast<unsigned>(bits >> 63) << 15;
  const unsigned infinity = static_cast<unsigned>(2 * bias + 1) << mantissa;
  const int exponent = static_cast<int>((bits >> 52) & 0x7FF);
  unsigned long long fraction = bits & 0xFFFFFFFFFFFFFull;
  if (exponent == 0x7FF) return sign | infinity | (fraction ? 1u << (mantissa - 1) : 0u);
  if (exponent == 0) return sign;
  fraction |= 1ull << 52;
  int target = exponent - 1023 + bias;
  int shift = 52 - mantissa;
  if (target < 1) {  // subnormal in the 16-bit format: the exponent of 1, without the implied leading bit
    shift += 1 - target;
    target = 1;
    if (shift > 54) return sign;
  }
  const unsigned long long half = 1ull << (shift - 1);
  const unsigned long long rest = fraction & ((1ull << shift) - 1);
  unsigned long long kept = fraction >> shift;
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // The leading bit, where kept, adds one to the exponent field; a carry out of the mantissa one more.
  const long long magnitude = (static_cast<long long>(target - 1) << mantissa) + static_cast<long long>(kept);
  return sign | (magnitude > infinity ? infinity : static_cast<unsigned>(magnitude));
}

__device__ inline void store_element(void* data, int dtype, long long i, double value) {
  if (dtype == kF64) {
    static_cast<double*>(data)[i] = value;
  } else if (dtype == kF32) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<unsigned short*>(data)[i] =
        dtype == kF16 ? round_to_16(value, 10, 15) : round_to_16(value, 7, 127);
  }
}

__device__ inline long long global_thread() {
  return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline long long global_threads() {
  return static_cast<long long>(gridDim.x) * blockDim.x;
}

}  // namespace knobwise
