// What candidates run on, and how the output is judged that they leave there.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/accuracy.h"
#include "kernels/device.h"
#include "tuner/evaluation/guarded_buffer.h"

namespace knobwise {

/// Owns the buffers of one problem on one device, each between guard regions. Not thread-safe; keeps a
/// reference to the device.
class TestBench {
 public:
  virtual ~TestBench() = default;

  /// The inputs to verify on, in this order; timing runs on the last.
  virtual std::span<const Distribution> distributions() const = 0;
  /// Fills the inputs, and poisons what a kernel must write whole.
  virtual void fill(Distribution distribution) = 0;
  /// Judges what the last run left in the outputs.
  virtual ErrorMetrics verify(const OutputTile& tile) = 0;
  /// The relative Frobenius error above which a configuration is wrong, not imprecise.
  virtual double error_bound(const Configuration& configuration) const = 0;
  /// Whether the output is accurate although its relative error says nothing, as the reference is zero but for
  /// its own rounding.
  virtual bool is_zero(const ErrorMetrics&) const { return false; }

  const Buffers& buffers() const { return buffers_; }
  /// The first buffer whose guards were written; null if all are intact.
  const GuardedBuffer* damaged() const;

 protected:
  explicit TestBench(Device& device) : device_(device) {}
  /// Throws UserError when the memory does not suffice.
  GuardedBuffer& add(std::size_t bytes, std::string_view purpose);

  Device& device_;
  Buffers buffers_;

 private:
  std::vector<std::unique_ptr<GuardedBuffer>> memory_;
};

/// A convolution on three distributions, against float64. Throws UserError when the memory does not suffice.
std::unique_ptr<TestBench> make_convolution_bench(Device& device, const Problem& problem, std::uint64_t seed);

class UserKernel;

/// A user's kernel on the data that its file describes, against its reference, which is computed here. Keeps
/// a reference to the kernel. Throws UserError when the memory does not suffice or the reference fails.
std::unique_ptr<TestBench> make_user_bench(Device& device, const UserKernel& kernel, std::uint64_t seed);

}  // namespace knobwise
