// Every dimension and knob is a constant of the compiled source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/family.h"
#include "tests/kernels/host_library.h"

namespace knobwise {
namespace {

TEST(SourcePrelude, DimensionsAreConstants) {
  const Problem problem = Problem::parse(
      "conv2d n=2 c=4 h=8 w=9 k=6 r=3 s=1 stride=2x1 pad=1x0 dilation=1x2 groups=2 dtype=f16 layout=nhwc "
      "bias");
  const HostLibrary library(source_prelude(problem, {}) + R"(
    static_assert(KW_RANK == 2 && KW_N == 2 && KW_C == 4 && KW_D == 1 && KW_H == 8 && KW_W == 9 && KW_K == 6);
    static_assert(KW_T == 1 && KW_R == 3 && KW_S == 1);
    static_assert(KW_STRIDE_D == 1 && KW_STRIDE_H == 2 && KW_STRIDE_W == 1);
    static_assert(KW_PAD_D == 0 && KW_PAD_H == 1 && KW_PAD_W == 0);
    static_assert(KW_DILATION_D == 1 && KW_DILATION_H == 1 && KW_DILATION_W == 2);
    static_assert(KW_GROUPS == 2 && KW_BIAS == 1 && KW_OD == 1 && KW_OH == 4 && KW_OW == 9);
    static_assert(KW_DTYPE_F32 == 0 && KW_DTYPE_F16 == 1 && KW_DTYPE_BF16 == 0 && KW_NHWC == 1);
    extern "C" int ok() { return 1; })");
  EXPECT_EQ(library.function<int()>("ok")(), 1);
}

TEST(SourcePrelude, KnobsOfEveryTypeAreConstants) {
  const Configuration configuration({{"tile", Value(std::int64_t{16})},
                                     {"flag", Value(true)},
                                     {"off", Value(false)},
                                     {"ratio", Value(0.5)},
                                     {"offset", Value(std::int64_t{-3})},
                                     {"precision", Value(std::string("tf32x3"))}});
  const HostLibrary library(source_prelude(Problem::parse("conv1d n=1 c=1 w=1 k=1 s=1"), configuration) + R"(
    static_assert(KNOB_tile == 16 && KNOB_flag == 1 && KNOB_off == 0 && KNOB_offset == -3 && KNOB_ratio == 0.5);
    static_assert(KNOB_precision_tf32x3 == 1);
    #ifdef KNOB_precision_fp32
    #error the name of another value is defined
    #endif
    extern "C" int ok() { return 1; })");
  EXPECT_EQ(library.function<int()>("ok")(), 1);
}

TEST(SourcePrelude, LargeDimensionsAreSixtyFourBit) {
  const HostLibrary library(source_prelude(Problem::parse("conv1d n=1 c=1 w=5000000000 k=1 s=1"), {}) +
                            "static_assert(KW_W * 2 == 10000000000);\nextern \"C\" int ok() { return 1; }");
  EXPECT_EQ(library.function<int()>("ok")(), 1);
}

}  // namespace
}  // namespace knobwise
