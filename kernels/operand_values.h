// The arithmetic behind operand_value(): compiles on the host and, as it includes nothing, in NVRTC.
#pragma once

#ifdef __CUDACC__
#define KW_OPERAND_FN __host__ __device__ inline
#else
#define KW_OPERAND_FN inline
#endif

namespace knobwise {

/// Output number `index` of the generator splitmix64 started with `seed` (Steele, Lea, Flood: "Fast
/// splittable pseudorandom number generators", 2014).
KW_OPERAND_FN unsigned long long operand_bits(unsigned long long seed, unsigned long long index) {
  unsigned long long z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/// One element. `kind` is OperandFill::Kind as a number: 0 uniform, 1 normal, 2 integers.
///
/// The result is the same wherever it is computed, with or without fused multiply-add: operand_fill() gives
/// bounds of at most 24 significant bits, so that the product in the uniform case is exact, and a mean of
/// zero, so that there is nothing to fuse in the normal case.
KW_OPERAND_FN double operand_from_bits(int kind, double low, double high, unsigned long long bits) {
  if (kind == 0) return low + (high - low) * ((double)(bits >> 40) * 0x1p-24);
  if (kind == 1) {
    long long sum =
        (long long)((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    // Four times uniform on 0..65535: mean 131070, variance (2^32 - 1) / 3.
    const double inverse_deviation = 2.6428997921303014e-05;
    return low + high * ((double)(sum - 131070) * inverse_deviation);
  }
  unsigned long long span = (unsigned long long)(high - low) + 1;
  return low + (double)(((bits >> 32) * span) >> 32);
}

}  // namespace knobwise
