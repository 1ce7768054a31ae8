// Runs one configuration of a CPU family on a problem and compares it with the float64 reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/operands.h"
#include "kernels/reference.h"

namespace knobwise {

inline Device& cpu() {
  static const std::unique_ptr<Device> device = open_cpu_device();
  return *device;
}

/// Host tensors of a problem: integers, so that sums are exact.
class Tensors {
 public:
  Tensors(const Problem& problem, std::uint64_t seed) {
    add(input_, problem.input_extents().elements(), operand_fill(problem, Distribution::integers, seed, -1));
    const auto specs = problem.parameters();
    parameters_.resize(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      add(parameters_[i], specs[i].elements(),
          operand_fill(problem, Distribution::integers, seed, static_cast<int>(i)));
      buffers_.parameters.push_back(parameters_[i].data());
    }
    output_.assign(static_cast<std::size_t>(problem.output_extents().elements()), NAN);
    buffers_.input = input_.data();
    buffers_.output = output_.data();
  }

  Buffers& buffers() { return buffers_; }
  std::vector<float>& output() { return output_; }

 private:
  static void add(std::vector<float>& tensor, std::int64_t elements, const OperandFill& fill) {
    tensor.resize(static_cast<std::size_t>(elements));
    fill_host(tensor.data(), DType::f32, elements, fill);
  }

  std::vector<float> input_, output_;
  std::vector<std::vector<float>> parameters_;
  Buffers buffers_;
};

/// Prepares and runs an executable on the tensors, workspace and packed weights poisoned before.
inline void run_on(Executable& executable, Tensors& tensors) {
  std::vector<float> packed(executable.packed_bytes() / 4 + 1, NAN),
      workspace(executable.workspace_bytes() / 4 + 1, NAN);
  tensors.buffers().packed = packed.data();
  tensors.buffers().workspace = workspace.data();
  executable.prepare(tensors.buffers(), nullptr);
  executable.run(tensors.buffers(), nullptr);
}

/// Sums of integers, shifts, minima and the like leave no rounding; means, exponentials and roots do.
inline bool is_exact(const Problem& problem) {
  for (const EpilogueStep& step : problem.epilogue) switch (step.op) {
      case EpilogueOp::add:
      case EpilogueOp::sub:
      case EpilogueOp::mul:
      case EpilogueOp::relu:
      case EpilogueOp::clamp:
      case EpilogueOp::residual:
      case EpilogueOp::min:
      case EpilogueOp::max:
      case EpilogueOp::sum:
        break;
      default:
        return false;
    }
  return true;
}

/// Every element equal where the problem is exact, else within 1e-5 of its size or of the output's root mean
/// square.
inline ::testing::AssertionResult matches(const Problem& problem, const std::vector<float>& output,
                                          const std::vector<double>& reference) {
  double squares = 0;
  for (const double value : reference) squares += value * value;
  const double rms = std::sqrt(squares / static_cast<double>(reference.size()));
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double allowed = is_exact(problem) ? 0 : 1e-5 * std::max(std::abs(reference[i]), rms);
    if (!(std::abs(static_cast<double>(output[i]) - reference[i]) <= allowed))
      return ::testing::AssertionFailure() << "element " << i << " of " << reference.size() << ": "
                                           << output[i] << " instead of " << reference[i];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace knobwise
