#include "kernels/operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/operand_values.h"
#include "kernels/parallel_for.h"

namespace knobwise {
namespace {

// To nearest, ties to even, as the processor rounds double to float.
std::uint16_t round_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Through the exponent's own spacing: exact for normal and subnormal results.
std::uint16_t round_to_f16(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 6.103515625e-05f) {  // subnormal: multiples of 2^-24
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::nearbyint(magnitude * 16777216.0f)));
  }
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t rounded = bits + 0xfff + (bits >> 13 & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  float magnitude;
  if (exponent == 31) {
    magnitude = mantissa ? NAN : HUGE_VALF;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::bit_cast<float>((exponent + 112) << 23 | mantissa << 13);
  }
  return bits & 0x8000 ? -magnitude : magnitude;
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void fill_range(void* data, DType dtype, std::int64_t begin, std::int64_t end, const OperandFill& fill) {
  for (std::int64_t i = begin; i < end; ++i) store_element(data, dtype, i, operand_value(fill, i));
}

}  // namespace

OperandFill operand_fill(const Problem& problem, Distribution distribution, std::uint64_t seed,
                         int parameter) {
  // The tensors of a problem draw from streams of their own; the input is the first.
  OperandFill fill;
  fill.seed = operand_bits(seed, static_cast<unsigned long long>(parameter + 1) * 3 +
                                     static_cast<unsigned long long>(distribution));
  // Bounds are floats, so that every product in operand_from_bits() is exact.
  const double scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(problem.fan_in())));
  const bool is_weight_or_bias = parameter == 0 || (parameter == 1 && problem.bias);
  switch (distribution) {
    case Distribution::uniform:
      fill.kind = OperandFill::Kind::uniform;
      fill.low = is_weight_or_bias ? -scale : 0;
      fill.high = is_weight_or_bias ? scale : 1;
      break;
    case Distribution::normal:
      fill.kind = OperandFill::Kind::normal;
      fill.low = 0;
      fill.high = is_weight_or_bias ? scale : 1;
      break;
    case Distribution::integers: {
      const int bound = parameter < 0 ? 4 : parameter == 0 ? 3 : 2;
      fill.kind = OperandFill::Kind::integers;
      fill.low = -bound;
      fill.high = bound;
      break;
    }
  }
  return fill;
}

double operand_value(const OperandFill& fill, std::int64_t index) {
  return operand_from_bits(static_cast<int>(fill.kind), fill.low, fill.high,
                           operand_bits(fill.seed, static_cast<unsigned long long>(index)));
}

void fill_host(void* data, DType dtype, std::int64_t elements, const OperandFill& fill) {
  constexpr std::int64_t kWorthAThread = 1 << 16;
  parallel_for((elements + kWorthAThread - 1) / kWorthAThread, 0, [&](std::int64_t block) {
    const std::int64_t begin = block * kWorthAThread;
    fill_range(data, dtype, begin, std::min(begin + kWorthAThread, elements), fill);
  });
}

double load_element(const void* data, DType dtype, std::int64_t index) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::f16 ? from_f16(bits) : from_bf16(bits);
}

void store_element(void* data, DType dtype, std::int64_t index, double value) {
  // By way of float for the 16-bit types: operands and outputs hold no value so close to a tie that the
  // second rounding shows beyond the last bit.
  const float single = static_cast<float>(value);
  if (dtype == DType::f32) {
    static_cast<float*>(data)[index] = single;
  } else {
    static_cast<std::uint16_t*>(data)[index] =
        dtype == DType::f16 ? round_to_f16(single) : round_to_bf16(single);
  }
}

}  // namespace knobwise
