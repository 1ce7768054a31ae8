// Vectors of the width that the configuration asks for, and the few operations that compilers lack.
// Part of the generated source of direct_conv; never included by the program itself.
#if defined(KNOB_precision_bf16)
#include <immintrin.h>
#endif

#define KW_FN static inline __attribute__((always_inline))

typedef long long Index;

namespace {

constexpr int kLanes = KNOB_vector_width;
typedef float Vector __attribute__((vector_size(kLanes * 4)));
typedef float UnalignedVector __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

constexpr Index least(Index a, Index b) {
  return a < b ? a : b;
}
constexpr Index most(Index a, Index b) {
  return a > b ? a : b;
}
constexpr Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}

KW_FN Vector load(const float* from) {
  return *reinterpret_cast<const UnalignedVector*>(from);
}
KW_FN void store(float* to, Vector value) {
  *reinterpret_cast<UnalignedVector*>(to) = value;
}
// Subtracting zero is exact for every float, so that compilers drop it; adding zero would turn -0 into +0.
KW_FN Vector broadcast(float value) {
  return value - Vector{};
}

#if defined(KNOB_precision_bf16)
// Adds the products of the two bf16 in every 32-bit lane.
KW_FN Vector dot_product_bf16(Vector sum, Vector a, Vector b) {
#if KNOB_vector_width == 16
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
#else
  return _mm256_dpbf16_ps(sum, reinterpret_cast<__m256bh>(a), reinterpret_cast<__m256bh>(b));
#endif
}
#endif

// Writes past the caches; `to` is aligned to the vector.
KW_FN void stream(float* to, const float* from) {
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(load(from), reinterpret_cast<Vector*>(to));
#elif defined(__AVX512F__) && KNOB_vector_width == 16
  __builtin_ia32_movntps512(to, load(from));
#elif defined(__AVX__) && KNOB_vector_width == 8
  __builtin_ia32_movntps256(to, load(from));
#else
  store(to, load(from));
#endif
}

// e^x for x <= 0, within 2 units in the last place; 0 below -87, NaN for NaN. Cody-Waite reduction by ln 2 in
// two parts, then the Taylor polynomial of degree 7 on |r| <= ln(2)/2, whose remainder is below 6e-9.
KW_FN float exponential(float x) {
  const float bounded = x < -87.0f ? -87.0f : x;
  const float n = __builtin_rintf(bounded * 1.44269504f);
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const int exponent = (static_cast<int>(n == n ? n : 0.0f) + 127) << 23;
  float scale;
  __builtin_memcpy(&scale, &exponent, sizeof scale);
  return x < -87.0f ? 0.0f : p * scale;
}

// Minimum and maximum as deep-learning frameworks define them: NaN wins.
KW_FN float lesser(float a, float b) {
  return b < a || b != b ? b : a;
}
KW_FN float greater(float a, float b) {
  return b > a || b != b ? b : a;
}

}  // namespace
