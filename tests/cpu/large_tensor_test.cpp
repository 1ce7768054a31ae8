// Tensors beyond 2^31 elements: every offset has 64 bits.
#include <gtest/gtest.h>

#include "kernels/cpu/direct_conv_family.h"
#include "kernels/cpu/machine.h"
#include "search_spaces/bound_space.h"
#include "tests/cpu/harness.h"

namespace knobwise {
namespace {

// The input has 2.2e9 floats, of which the wide stride leaves few in use: only those are set, the rest stays
// untouched memory that costs nothing.
TEST(LargeTensor, AnInputBeyondTwoToTheThirtyOne) {
  constexpr std::int64_t kNeeded = std::int64_t{14} << 30;
  if (available_memory_bytes() < kNeeded)
    GTEST_SKIP() << "needs 14 GB of free memory, there are " << available_memory_bytes() / 1e9;
  const Problem problem = Problem::parse("conv2d n=3 c=2 h=16384 w=22400 k=3 r=1 s=1 stride=1024x1400 bias");
  ASSERT_GT(problem.input_extents().elements(), std::int64_t{1} << 31);
  const KernelFamily& family = cpu_direct_conv_family();
  const BoundSpace space = bind_space(family, problem, cpu().info());
  const KernelInstance instance =
      family.instantiate(problem, space.configuration(space.default_index()), cpu().info());
  const auto executable = cpu().load(instance, cpu_compile(instance, cpu().info()));

  const auto input =
      cpu().allocate(static_cast<std::size_t>(problem.input_extents().elements()) * 4, "the input");
  float* pixels = static_cast<float*>(input->data());
  const auto value = [](std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) {
    return static_cast<float>((n * 5 + c * 7 + y * 3 + x) % 11 - 5);
  };
  for (std::int64_t n = 0; n < 3; ++n)
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t y = 0; y < 16; ++y)
        for (std::int64_t x = 0; x < 16; ++x)
          pixels[((n * 2 + c) * 16384 + y * 1024) * 22400 + x * 1400] = value(n, c, y, x);
  float weights[] = {1, 2, -3, 1, 0, 2}, bias[] = {1, -1, 4};
  std::vector<float> output(3 * 3 * 256, NAN), packed(executable->packed_bytes() / 4);
  Buffers buffers;
  buffers.input = pixels;
  buffers.output = output.data();
  buffers.parameters = {weights, bias};
  buffers.packed = packed.data();
  executable->prepare(buffers, nullptr);
  executable->run(buffers, nullptr);
  for (std::int64_t n = 0, i = 0; n < 3; ++n)
    for (std::int64_t k = 0; k < 3; ++k)
      for (std::int64_t y = 0; y < 16; ++y)
        for (std::int64_t x = 0; x < 16; ++x, ++i)
          ASSERT_EQ(output[static_cast<std::size_t>(i)],
                    weights[k * 2] * value(n, 0, y, x) + weights[k * 2 + 1] * value(n, 1, y, x) + bias[k])
              << "sample " << n << ", channel " << k << ", row " << y << ", column " << x;
}

}  // namespace
}  // namespace knobwise
