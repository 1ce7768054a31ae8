// Offsets beyond 2^31 elements, and the time that verifying the reference problems takes.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/operands.h"
#include "kernels/reference.h"
#include "tests/kernels/tensors.h"

namespace knobwise {
namespace {

// Memory that costs nothing until it is written: pages of zeros.
class LazyMemory {
 public:
  explicit LazyMemory(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                   0)) {}
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;
  ~LazyMemory() {
    if (valid()) munmap(data_, bytes_);
  }
  bool valid() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

TEST(ReferenceLarge, OffsetsPastTwoToTheThirtyOneAreRight) {
  for (const char* layout : {"nchw", "nhwc"}) {
    // 2^32 inputs and as many outputs.
    const Problem problem = Problem::parse(
        std::string("conv2d n=4 c=16 h=8192 w=8192 k=16 r=3 s=3 pad=1 dtype=bf16 layout=") + layout);
    ASSERT_GT(problem.input_extents().elements(), std::int64_t{1} << 31);
    LazyMemory input(static_cast<std::size_t>(problem.input_extents().elements()) * 2);
    if (!input.valid()) GTEST_SKIP() << "no address space for 8 GiB";
    std::vector<std::uint16_t> weights(16 * 16 * 9);
    // One tap: output channel 5 reads input channel 13, one row up and one column right, times 3.
    store_element(weights.data(), DType::bf16, ((5 * 16 + 13) * 3 + 0) * 3 + 2, 3);
    Buffers buffers;
    buffers.input = input.data();
    buffers.parameters = {weights.data()};

    const Extents e = problem.input_extents();
    const bool first = problem.layout == Layout::nchw;
    const auto place = [&](std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
      return first ? ((n * e.c + c) * e.h + h) * e.w + w : ((n * e.h + h) * e.w + w) * e.c + c;
    };
    store_element(input.data(), DType::bf16, place(3, 13, 7000, 8000), 0.5);
    store_element(input.data(), DType::bf16, place(0, 13, 17, 18), 8);
    const std::vector<std::int64_t> indices = {place(0, 5, 18, 17), place(0, 5, 18, 18),
                                               place(3, 5, 7001, 7999), place(3, 6, 7001, 7999),
                                               place(3, 15, 8191, 8191)};
    EXPECT_EQ(reference_at(problem, buffers, indices), (std::vector<double>{24, 0, 1.5, 0, 0})) << layout;
  }
}

TEST(ReferenceLarge, SamplingReferenceProblemsTakesLittleTime) {
  for (const char* line :
       {"conv2d n=128 c=8 h=128 w=128 k=64 r=3 s=3 bias | div 2 | leaky_relu 0.01",
        "conv3d n=128 c=3 d=24 h=32 w=32 k=24 t=3 r=3 s=3 bias | min depth | softmax channel",
        "conv2d n=8 c=64 h=512 w=256 k=128 r=5 s=7",
        "conv1d n=16 c=128 w=1024 k=256 s=3 pad=1 | group_norm groups=32 eps=1e-5 affine"}) {
    const Problem problem = Problem::parse(line);
    LazyMemory input(static_cast<std::size_t>(problem.input_extents().elements()) * 4);
    LazyMemory output(static_cast<std::size_t>(problem.output_extents().elements()) * 4);
    if (!input.valid() || !output.valid()) GTEST_SKIP() << "not enough address space";
    std::vector<std::vector<float>> parameters;
    Buffers buffers;
    buffers.input = input.data();
    buffers.output = output.data();
    for (const ParameterSpec& spec : problem.parameters()) {
      parameters.emplace_back(static_cast<std::size_t>(spec.elements()));
      buffers.parameters.push_back(parameters.back().data());
    }
    const auto begin = std::chrono::steady_clock::now();
    const ErrorMetrics metrics = verify_host(problem, buffers, {32, 1, 8, 16}, 1);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    std::printf("%.2f s: %s\n", elapsed.count(), line);
    EXPECT_GT(metrics.checked, 10'000);
    EXPECT_EQ(metrics.nans, 0);
  }
}

}  // namespace
}  // namespace knobwise
