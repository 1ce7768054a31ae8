// The search space of direct_conv: never empty, searchable, with a default.
#include <gtest/gtest.h>

#include "kernels/cpu/direct_conv_family.h"
#include "search_spaces/bound_space.h"
#include "tests/cpu/harness.h"

namespace knobwise {
namespace {

const char* const kReferenceProblems[] = {
    "conv2d n=256 c=3 h=224 w=224 k=96 r=11 s=11 stride=4 pad=2 bias",
    "conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
    "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
    "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
    "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine",
};

TEST(DirectConvSpace, IsSearchableForTheReferenceProblems) {
  for (const char* line : kReferenceProblems) {
    const BoundSpace space = bind_space(cpu_direct_conv_family(), Problem::parse(line), cpu().info());
    EXPECT_GE(space.size(), 100u) << line;
    EXPECT_LE(space.size(), 10000u) << line;
  }
}

DeviceInfo processor(int vector_bytes, int vector_registers, std::int64_t l2_bytes) {
  DeviceInfo info = cpu().info();
  info.vector_bytes = vector_bytes;
  info.vector_registers = vector_registers;
  info.l2_bytes = l2_bytes;
  info.bf16 = false;
  return info;
}

// Shapes at the corners: one of everything, large primes, a single position, a filter as large as the image.
TEST(DirectConvSpace, HasADefaultForEverySupportedProblemAndProcessor) {
  const char* const lines[] = {
      "conv2d n=1 c=1 h=1 w=1 k=1 r=1 s=1",
      "conv1d n=1 c=1 w=100000 k=1 s=1",
      "conv1d n=1 c=4099 w=31 k=4099 s=3",
      "conv2d n=1 c=4099 h=1 w=1 k=4099 r=1 s=1 bias",
      "conv2d n=1 c=2 h=64 w=64 k=5 r=64 s=64",
      "conv2d n=1 c=4096 h=7 w=7 k=4096 r=7 s=7 groups=4096",
      "conv3d n=1 c=512 d=8 h=14 w=14 k=1031 t=3 r=3 s=3 pad=1 | min depth | softmax channel",
      "conv3d n=2 c=16 d=70 h=3 w=3 k=16 t=3 r=3 s=3 | max depth",
      "conv2d n=1 c=3 h=2000 w=1 k=40 r=3 s=1 | group_norm groups=1 eps=1e-5",
      "conv2d n=1 c=3 h=3 w=9000 k=40 r=3 s=1 stride=7 dilation=1x5",
      "conv2d n=32 c=2048 h=7 w=7 k=512 r=1 s=1 bias | relu",
  };
  const DeviceInfo processors[] = {cpu().info(), processor(32, 16, 256 << 10), processor(16, 16, 0),
                                   processor(16, 32, 1 << 20), processor(64, 32, 2 << 20)};
  for (const DeviceInfo& info : processors)
    for (const char* line : lines) {
      const Problem problem = Problem::parse(line);
      ASSERT_EQ(cpu_direct_conv_family().unsupported_reason(problem, info), std::nullopt) << line;
      const BoundSpace space = bind_space(cpu_direct_conv_family(), problem, info);
      ASSERT_GT(space.size(), 0u) << line << ", vectors of " << info.vector_bytes << " bytes";
      EXPECT_TRUE(space.contains(space.configuration(space.default_index()))) << line;
    }
}

TEST(DirectConvSpace, UnsupportedProblemsSayWhy) {
  const auto reason = [](const char* line) {
    return cpu_direct_conv_family().unsupported_reason(Problem::parse(line), cpu().info()).value_or("");
  };
  EXPECT_NE(reason("conv2d n=1 c=1 h=4 w=4 k=1 r=1 s=1 dtype=f16").find("f16"), std::string::npos);
  EXPECT_NE(reason("conv2d n=1 c=1 h=4 w=4 k=1 r=1 s=1 layout=nhwc").find("nhwc"), std::string::npos);
  EXPECT_NE(reason("conv2d n=1 c=1 h=5000 w=5000 k=1 r=5000 s=5000").find("scratch"), std::string::npos);
}

}  // namespace
}  // namespace knobwise
