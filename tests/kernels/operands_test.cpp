// Operands: the same numbers everywhere, of the distribution promised, rounded to nearest even.
#include "kernels/operands.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace knobwise {
namespace {

const Problem& problem() {
  static const Problem p = Problem::parse(
      "conv2d n=2 c=25 h=8 w=8 k=4 r=2 s=2 bias | residual | instance_norm affine");  // fan-in 100
  return p;
}

struct Moments {
  double mean = 0, variance = 0, least = HUGE_VAL, largest = -HUGE_VAL;
};

Moments moments(const OperandFill& fill, std::int64_t count) {
  Moments m;
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = operand_value(fill, i);
    m.mean += x;
    squares += x * x;
    m.least = std::min(m.least, x);
    m.largest = std::max(m.largest, x);
  }
  m.mean /= static_cast<double>(count);
  m.variance = squares / static_cast<double>(count) - m.mean * m.mean;
  return m;
}

TEST(Operands, GeneratorIsSplitmix64) {
  // The first outputs of splitmix64 seeded with 1234567, as published with the generator: the top 24 bits.
  OperandFill fill;
  fill.seed = 1234567;
  const std::uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(operand_value(fill, i), static_cast<double>(expected[i] >> 40) / 16777216);
  }
}

TEST(Operands, UniformInputsAreInTheUnitInterval) {
  const Moments m = moments(operand_fill(problem(), Distribution::uniform, 7, -1), 200'000);
  EXPECT_GE(m.least, 0);
  EXPECT_LT(m.largest, 1);
  EXPECT_NEAR(m.mean, 0.5, 0.005);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.002);
}

TEST(Operands, UniformWeightsAndBiasScaleWithTheFanIn) {
  for (int parameter : {0, 1}) {
    const Moments m = moments(operand_fill(problem(), Distribution::uniform, 7, parameter), 200'000);
    EXPECT_GE(m.least, -0.1f);
    EXPECT_LT(m.largest, 0.1f);
    EXPECT_NEAR(m.mean, 0, 0.001);
    EXPECT_NEAR(m.variance, 0.01 / 3, 0.0001);
  }
}

TEST(Operands, NormalHasUnitVarianceAndBoundedTails) {
  const Moments input = moments(operand_fill(problem(), Distribution::normal, 7, -1), 200'000);
  EXPECT_NEAR(input.mean, 0, 0.01);
  EXPECT_NEAR(input.variance, 1, 0.01);
  EXPECT_GT(input.least, -3.5);
  EXPECT_LT(input.largest, 3.5);
  EXPECT_GT(input.largest, 3.0);
  EXPECT_NEAR(moments(operand_fill(problem(), Distribution::normal, 7, 0), 200'000).variance, 0.01, 0.0001);
}

TEST(Operands, NormalIsScaledToUnitVarianceExactly) {
  // Four independent 16-bit fields: the largest sum is 4 * 65535, at sqrt(3 * (2^16 - 1) / (2^16 + 1)) * 2
  // deviations from the mean.
  OperandFill fill;
  fill.kind = OperandFill::Kind::normal;
  fill.low = 0;
  fill.high = 1;
  const double unit = 1 / std::sqrt((std::pow(2.0, 32) - 1) / 3);
  for (std::int64_t i = 0; i < 1000; ++i) {
    const double steps = operand_value(fill, i) / unit;
    EXPECT_NEAR(steps, std::round(steps), 1e-6);
  }
}

TEST(Operands, IntegersCoverTheirRangeEvenly) {
  for (const auto& [parameter, bound] : {std::pair{-1, 4}, {0, 3}, {1, 2}, {2, 2}, {3, 2}, {4, 2}}) {
    const OperandFill fill = operand_fill(problem(), Distribution::integers, 7, parameter);
    std::vector<int> counts(static_cast<std::size_t>(2 * bound + 1));
    for (int i = 0; i < 90'000; ++i) {
      const double x = operand_value(fill, i);
      ASSERT_EQ(x, std::round(x));
      ASSERT_LE(std::abs(x), bound);
      ++counts[static_cast<std::size_t>(static_cast<int>(x) + bound)];
    }
    const double expected = 90'000.0 / (2 * bound + 1);
    for (int count : counts) EXPECT_NEAR(count, expected, expected * 0.05) << "parameter " << parameter;
  }
}

TEST(Operands, TensorsDrawFromDifferentStreams) {
  for (Distribution distribution : kDistributions) {
    std::vector<std::uint64_t> seeds;
    for (std::uint64_t seed : {1, 2}) {
      for (int parameter = -1; parameter < 5; ++parameter) {
        seeds.push_back(operand_fill(problem(), distribution, seed, parameter).seed);
      }
    }
    std::sort(seeds.begin(), seeds.end());
    EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end()) << to_string(distribution);
  }
}

TEST(Operands, UniformBoundsMakeTheProductExact) {
  // With at most 24 significant bits in the bounds, fused and separate multiply-add agree on every device.
  const OperandFill fill = operand_fill(problem(), Distribution::uniform, 7, 0);
  EXPECT_EQ(static_cast<double>(static_cast<float>(fill.high)), fill.high);
  for (std::int64_t i = 0; i < 10'000; ++i) {
    OperandFill unit = fill;
    unit.low = 0;
    unit.high = 1;
    const double u = operand_value(unit, i);
    EXPECT_EQ(operand_value(fill, i), std::fma(fill.high - fill.low, u, fill.low));
  }
}

TEST(Operands, FillHostGivesElementsFromTheirIndexAlone) {
  const OperandFill fill = operand_fill(problem(), Distribution::normal, 3, -1);
  constexpr std::int64_t kElements = 300'001;  // several threads, uneven parts
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::vector<std::uint32_t> memory(kElements);
    fill_host(memory.data(), dtype, kElements, fill);
    for (std::int64_t i = 0; i < kElements; i += i < 100 ? 1 : 997) {
      std::uint32_t one = 0;
      store_element(&one, dtype, 0, operand_value(fill, i));
      ASSERT_EQ(load_element(memory.data(), dtype, i), load_element(&one, dtype, 0)) << i;
    }
  }
}

TEST(Operands, HalfRoundsAsEigenDoes) {
  for (std::uint64_t i = 0; i < (std::uint64_t{1} << 32); i += 9973) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(i));
    if (std::isnan(value)) continue;
    std::uint16_t half = 0, bfloat = 0;
    store_element(&half, DType::f16, 0, value);
    store_element(&bfloat, DType::bf16, 0, value);
    ASSERT_EQ(half, Eigen::numext::bit_cast<std::uint16_t>(Eigen::half(value))) << value;
    ASSERT_EQ(bfloat, Eigen::numext::bit_cast<std::uint16_t>(Eigen::bfloat16(value))) << value;
  }
}

TEST(Operands, EverySixteenBitPatternReadsAsItsValue) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float half = static_cast<float>(Eigen::numext::bit_cast<Eigen::half>(pattern));
    const float bfloat = static_cast<float>(Eigen::numext::bit_cast<Eigen::bfloat16>(pattern));
    const double read_half = load_element(&pattern, DType::f16, 0);
    const double read_bfloat = load_element(&pattern, DType::bf16, 0);
    EXPECT_TRUE(std::isnan(half) ? std::isnan(read_half) : read_half == half) << bits;
    EXPECT_TRUE(std::isnan(bfloat) ? std::isnan(read_bfloat) : read_bfloat == bfloat) << bits;
  }
}

TEST(Operands, NanStaysNanInEveryType) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    std::uint32_t memory = 0;
    store_element(&memory, dtype, 0, NAN);
    EXPECT_TRUE(std::isnan(load_element(&memory, dtype, 0)));
  }
}

}  // namespace
}  // namespace knobwise
