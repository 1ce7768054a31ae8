// A problem's tensors on the host, in the problem's own type, and their float64 result.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/operands.h"
#include "kernels/reference.h"
#include "tests/cuda/gpu_fixture.h"

namespace knobwise {

struct HostTensors {
  HostTensors(const Problem& of, Distribution distribution) : problem(of) {
    const auto add = [&](std::int64_t elements, int parameter) {
      memory.emplace_back(static_cast<std::size_t>(elements) * size_of(problem.dtype));
      fill_host(memory.back().data(), problem.dtype, elements,
                operand_fill(problem, distribution, 3, parameter));
    };
    add(problem.input_extents().elements(), -1);
    const auto specs = problem.parameters();
    for (std::size_t i = 0; i < specs.size(); ++i) add(specs[i].elements(), static_cast<int>(i));
  }

  std::size_t outputs() const { return static_cast<std::size_t>(problem.output_extents().elements()); }

  std::vector<double> reference() {
    Buffers buffers;
    buffers.input = memory[0].data();
    for (std::size_t i = 1; i < memory.size(); ++i) buffers.parameters.push_back(memory[i].data());
    std::vector<double> output(outputs());
    reference_output(problem, buffers, output.data(), 0);
    return output;
  }

  /// The double nearest to `value` among those of the problem's type.
  double rounded(double value) const {
    char element[8];
    store_element(element, problem.dtype, 0, value);
    return load_element(element, problem.dtype, 0);
  }

  /// Runs an instance on these tensors.
  std::vector<double> run(Device& device, Executable& executable) const {
    DeviceTensors tensors(device, problem);
    tensors.fill(Distribution::integers, 3);
    const Buffers& buffers = tensors.buffers();
    device.upload(buffers.input, memory[0].data(), memory[0].size());
    for (std::size_t i = 1; i < memory.size(); ++i)
      device.upload(buffers.parameters[i - 1], memory[i].data(), memory[i].size());
    tensors.run(executable);
    std::vector<char> raw(outputs() * size_of(problem.dtype));
    device.download(raw.data(), buffers.output, raw.size());
    std::vector<double> output(outputs());
    for (std::size_t i = 0; i < output.size(); ++i)
      output[i] = load_element(raw.data(), problem.dtype, static_cast<std::int64_t>(i));
    return output;
  }

  Problem problem;
  std::vector<std::vector<char>> memory;  ///< Input, then parameters.
};

/// Elements of `output` that are not the reference rounded to the problem's type; NaN is equal to NaN.
inline std::size_t differences(const HostTensors& tensors, const std::vector<double>& output,
                               const std::vector<double>& reference) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const double expected = tensors.rounded(reference[i]);
    if (!(output[i] == expected || (std::isnan(output[i]) && std::isnan(expected)))) ++count;
  }
  return count;
}

}  // namespace knobwise
