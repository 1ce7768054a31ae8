// Host tensors of a problem, filled as verification fills them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/device.h"
#include "kernels/operands.h"

namespace knobwise {

/// Owns input, parameters and output in the problem's type; the output is poisoned with NaN.
class Tensors {
 public:
  Tensors(const Problem& problem, Distribution distribution, std::uint64_t seed) : dtype_(problem.dtype) {
    const auto specs = problem.parameters();
    storage_.resize(specs.size() + 2);
    buffers_.input = allocate(0, problem.input_extents().elements());
    fill_host(buffers_.input, dtype_, problem.input_extents().elements(),
              operand_fill(problem, distribution, seed, -1));
    for (std::size_t i = 0; i < specs.size(); ++i) {
      buffers_.parameters.push_back(allocate(i + 2, specs[i].elements()));
      fill_host(buffers_.parameters[i], dtype_, specs[i].elements(),
                operand_fill(problem, distribution, seed, static_cast<int>(i)));
    }
    outputs_ = problem.output_extents().elements();
    buffers_.output = allocate(1, outputs_);
    for (std::int64_t i = 0; i < outputs_; ++i) store_element(buffers_.output, dtype_, i, NAN);
  }

  Buffers& buffers() { return buffers_; }
  std::int64_t outputs() const { return outputs_; }
  void set_input(std::int64_t index, double value) { store_element(buffers_.input, dtype_, index, value); }
  double output(std::int64_t index) const { return load_element(buffers_.output, dtype_, index); }
  void set_output(std::int64_t index, double value) { store_element(buffers_.output, dtype_, index, value); }

 private:
  void* allocate(std::size_t which, std::int64_t elements) {
    storage_[which].resize(static_cast<std::size_t>(elements) * size_of(dtype_));
    return storage_[which].data();
  }

  DType dtype_;
  std::vector<std::vector<unsigned char>> storage_;
  std::int64_t outputs_ = 0;
  Buffers buffers_;
};

}  // namespace knobwise
