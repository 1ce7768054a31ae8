// A convolution's tensors and their verification.
#include <optional>

#include "kernels/tensors.h"
#include "tuner/evaluation/precision_bound.h"
#include "tuner/evaluation/test_bench.h"

namespace knobwise {
namespace {

// Timing runs on the inputs of the last distribution verified: realistic ones.
constexpr Distribution kVerificationOrder[] = {Distribution::integers, Distribution::normal,
                                               Distribution::uniform};

class ConvolutionBench : public TestBench {
 public:
  ConvolutionBench(Device& device, const Problem& problem, std::uint64_t seed)
      : TestBench(device), problem_(problem), seed_(seed) {
    buffers_ = allocate_tensors(
        problem, [this](std::size_t bytes, std::string_view purpose) { return add(bytes, purpose).data(); });
  }

  std::span<const Distribution> distributions() const override { return kVerificationOrder; }

  void fill(Distribution distribution) override {
    if (filled_ != distribution) {
      filled_.reset();
      fill_tensors(device_, problem_, buffers_, distribution, seed_);
      filled_ = distribution;
    }
    poison_output(device_, problem_, buffers_);
  }

  ErrorMetrics verify(const OutputTile& tile) override {
    return device_.verify(problem_, buffers_, tile, seed_);
  }

  double error_bound(const Configuration& configuration) const override {
    const Value* precision = configuration.find("precision");
    return precision_bound(precision ? to_string(*precision) : "", problem_.dtype);
  }

  // As the mean of what a norm gives: rounding of float64 is some 1e-16 of values around 1.
  bool is_zero(const ErrorMetrics& metrics) const override {
    constexpr double kRounding = 1e-12;  // root mean square of the reference
    return metrics.rms <= kRounding * metrics.rel_fro && metrics.frac_outside == 0;
  }

 private:
  Problem problem_;
  std::uint64_t seed_;
  std::optional<Distribution> filled_;  // what the inputs hold now
};

}  // namespace

std::unique_ptr<TestBench> make_convolution_bench(Device& device, const Problem& problem,
                                                  std::uint64_t seed) {
  return std::make_unique<ConvolutionBench>(device, problem, seed);
}

}  // namespace knobwise
