// Error metrics and requirements, above all where numbers are not numbers.
#include "kernels/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ErrorMetrics metrics_of(std::initializer_list<std::pair<double, double>> pairs) {
  ErrorAccumulator errors;
  for (const auto& [out, ref] : pairs) errors.add(out, ref);
  return errors.metrics();
}

TEST(ErrorAccumulator, MetricsFollowTheirDefinitions) {
  const ErrorMetrics metrics = metrics_of({{3, 3}, {5, 4}, {0, 2}, {-1, -1}});
  EXPECT_DOUBLE_EQ(metrics.max_abs, 2);
  EXPECT_DOUBLE_EQ(metrics.mean_abs, 0.75);
  EXPECT_DOUBLE_EQ(metrics.rms, std::sqrt(5.0 / 4));
  EXPECT_DOUBLE_EQ(metrics.rel_fro, std::sqrt(5.0 / 30));
  EXPECT_DOUBLE_EQ(metrics.frac_outside, 0.5);
  EXPECT_EQ(metrics.checked, 4);
  EXPECT_EQ(metrics.nans, 0);
}

TEST(ErrorAccumulator, GateIsAbsolutePlusRelative) {
  EXPECT_EQ(metrics_of({{1.000199, 1}}).frac_outside, 0);
  EXPECT_EQ(metrics_of({{1.000201, 1}}).frac_outside, 1);
  EXPECT_EQ(metrics_of({{99e-6, 0}}).frac_outside, 0);
  EXPECT_EQ(metrics_of({{101e-6, 0}}).frac_outside, 1);
}

TEST(ErrorAccumulator, NanOutputCountsAndIsOutside) {
  const ErrorMetrics metrics = metrics_of({{kNan, 1}, {2, 2}});
  EXPECT_EQ(metrics.nans, 1);
  EXPECT_DOUBLE_EQ(metrics.frac_outside, 0.5);
  EXPECT_EQ(metrics.max_abs, 0);
  EXPECT_EQ(metrics.rel_fro, 0);
}

TEST(ErrorAccumulator, NumberWhereTheReferenceIsNotOneIsWrong) {
  const ErrorMetrics metrics = metrics_of({{1, kNan}});
  EXPECT_EQ(metrics.frac_outside, 1);
  EXPECT_FALSE(AccuracyRequirement::parse("any").accepts(metrics));
}

TEST(ErrorAccumulator, NanThatIsRightIsRight) {
  const ErrorMetrics metrics = metrics_of({{kNan, kNan}, {1, 1}});
  EXPECT_EQ(metrics.nans, 0);
  EXPECT_EQ(metrics.frac_outside, 0);
  EXPECT_EQ(metrics.checked, 2);
}

TEST(ErrorAccumulator, EqualInfinitiesAgree) {
  const ErrorMetrics metrics = metrics_of({{kInfinity, kInfinity}, {-kInfinity, -kInfinity}, {1, 1}});
  EXPECT_EQ(metrics.frac_outside, 0);
  EXPECT_EQ(metrics.max_abs, 0);
  EXPECT_EQ(metrics.rel_fro, 0);
}

TEST(ErrorAccumulator, UnequalInfinitiesAreOutside) {
  // |out - ref| <= tolerance * |ref| would let the second one pass.
  for (const auto& [out, ref] : {std::pair{kInfinity, 1.0}, {1.0, kInfinity}, {kInfinity, -kInfinity}}) {
    const ErrorMetrics metrics = metrics_of({{out, ref}});
    EXPECT_EQ(metrics.frac_outside, 1) << out << " for " << ref;
    EXPECT_EQ(metrics.max_abs, kInfinity);
    for (const char* requirement : {"allclose", "tf32", "half", "bf16"}) {
      EXPECT_FALSE(AccuracyRequirement::parse(requirement).accepts(metrics)) << requirement;
    }
  }
}

TEST(ErrorAccumulator, ErrorAgainstZeroIsInfinitelyLarge) {
  EXPECT_EQ(metrics_of({{1, 0}}).rel_fro, kInfinity);
  EXPECT_EQ(metrics_of({{0, 0}}).rel_fro, 0);
}

TEST(ErrorAccumulator, MergingEqualsAddingAll) {
  ErrorAccumulator all, first, second;
  for (int i = 0; i < 100; ++i) {
    const double ref = i * 0.25, out = i == 17 ? kNan : ref + i % 3 * 0.125;
    all.add(out, ref);
    (i < 40 ? first : second).add(out, ref);
  }
  first.merge(second);
  const ErrorMetrics a = all.metrics(), b = first.metrics();
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_DOUBLE_EQ(a.mean_abs, b.mean_abs);
  EXPECT_DOUBLE_EQ(a.rms, b.rms);
  EXPECT_DOUBLE_EQ(a.rel_fro, b.rel_fro);
  EXPECT_EQ(a.frac_outside, b.frac_outside);
  EXPECT_EQ(a.checked, b.checked);
  EXPECT_EQ(a.nans, b.nans);
}

TEST(AccuracyRequirement, NamesMeanWhatIsDocumented) {
  EXPECT_EQ(AccuracyRequirement::parse("allclose").frac_outside, 0.0);
  EXPECT_EQ(AccuracyRequirement::parse("tf32").rel_fro, 1e-3);
  EXPECT_EQ(AccuracyRequirement::parse("half").rel_fro, 2e-3);
  EXPECT_EQ(AccuracyRequirement::parse("bf16").rel_fro, 1.6e-2);
  const AccuracyRequirement any = AccuracyRequirement::parse("any");
  EXPECT_FALSE(any.max_abs || any.rel_fro || any.frac_outside);
}

TEST(AccuracyRequirement, TextReadsBack) {
  for (const char* text : {"allclose", "tf32", "half", "bf16", "any", "max_abs=0.25",
                           "max_abs=0.001,rel_fro=0.0001,frac_outside=0.125"}) {
    EXPECT_EQ(AccuracyRequirement::parse(text).to_string(), text);
  }
  EXPECT_EQ(AccuracyRequirement::parse("rel_fro=1e-4,max_abs=1e-3").to_string(),
            "max_abs=0.001,rel_fro=0.0001");
}

TEST(AccuracyRequirement, MistakesAreUserErrors) {
  for (const char* text : {"", "strict", "rel_fro", "rel_fro=", "rel_fro=-1", "rel_fro=nan", "rel_fro=1e-4,",
                           "mean_abs=1", "rel_fro=1x", "max_abs=1;rel_fro=1", "rel_fro=1,rel_fro=2"}) {
    EXPECT_THROW(AccuracyRequirement::parse(text), UserError) << text;
  }
}

TEST(AccuracyRequirement, EveryLimitMustBeMet) {
  ErrorMetrics metrics;
  metrics.checked = 10;
  metrics.max_abs = 1e-3;
  metrics.rel_fro = 1e-4;
  metrics.frac_outside = 0.5;
  EXPECT_TRUE(AccuracyRequirement::parse("rel_fro=1e-4,max_abs=1e-3").accepts(metrics));
  EXPECT_FALSE(AccuracyRequirement::parse("rel_fro=1e-4,max_abs=9e-4").accepts(metrics));
  EXPECT_FALSE(AccuracyRequirement::parse("rel_fro=9e-5,max_abs=1e-3").accepts(metrics));
  EXPECT_FALSE(AccuracyRequirement::parse("allclose").accepts(metrics));
}

TEST(AccuracyRequirement, NanNeverPasses) {
  ErrorMetrics one_nan;
  one_nan.checked = 10;
  one_nan.nans = 1;
  EXPECT_FALSE(AccuracyRequirement::parse("any").accepts(one_nan));
  ErrorMetrics nan_metric;
  nan_metric.checked = 10;
  nan_metric.rel_fro = kNan;
  EXPECT_FALSE(AccuracyRequirement::parse("tf32").accepts(nan_metric));
}

TEST(AccuracyRequirement, WhatWasNotCheckedDoesNotPass) {
  EXPECT_FALSE(AccuracyRequirement::parse("any").accepts(ErrorMetrics{}));
}

}  // namespace
}  // namespace knobwise
