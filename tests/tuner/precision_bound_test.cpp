#include "tuner/evaluation/precision_bound.h"

#include <gtest/gtest.h>

namespace knobwise {
namespace {

TEST(PrecisionBound, ASplitModeIsHeldToMoreThanASinglePass) {
  EXPECT_LT(precision_bound("fp32", DType::f32), precision_bound("tf32x3", DType::f32));
  EXPECT_LT(precision_bound("tf32x3", DType::f32), precision_bound("tf32", DType::f32));
  EXPECT_LT(precision_bound("fp16_e5m2", DType::f32), precision_bound("fp16", DType::f32));
  EXPECT_LT(precision_bound("fp16", DType::f32), precision_bound("bf16", DType::f32));
}

TEST(PrecisionBound, RoundingOfTheOutputCounts) {
  // Half an ulp of fp16 is 2^-11 of the value: exact arithmetic may be off by that much.
  EXPECT_GE(precision_bound("fp32", DType::f16), 1.0 / 2048);
  EXPECT_GE(precision_bound("fp32", DType::bf16), 1.0 / 256);
}

}  // namespace
}  // namespace knobwise
