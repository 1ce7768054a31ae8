#include "kernels/tensors.h"

#include <vector>

#include "kernels/operands.h"

namespace knobwise {

std::size_t tensor_bytes(const Problem& problem, std::int64_t elements) {
  return static_cast<std::size_t>(elements) * size_of(problem.dtype);
}

Buffers allocate_tensors(const Problem& problem, const TensorAllocator& allocate) {
  Buffers buffers;
  buffers.input = allocate(tensor_bytes(problem, problem.input_extents().elements()), "input");
  buffers.output = allocate(tensor_bytes(problem, problem.output_extents().elements()), "output");
  for (const ParameterSpec& parameter : problem.parameters()) {
    buffers.parameters.push_back(allocate(tensor_bytes(problem, parameter.elements()), parameter.name));
  }
  return buffers;
}

void fill_tensors(Device& device, const Problem& problem, const Buffers& buffers, Distribution distribution,
                  std::uint64_t seed) {
  device.fill_operand(buffers.input, problem.dtype, problem.input_extents().elements(),
                      operand_fill(problem, distribution, seed, -1));
  const std::vector<ParameterSpec> specs = problem.parameters();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    device.fill_operand(buffers.parameters[i], problem.dtype, specs[i].elements(),
                        operand_fill(problem, distribution, seed, static_cast<int>(i)));
  }
}

void poison_output(Device& device, const Problem& problem, const Buffers& buffers) {
  device.fill_bytes(buffers.output, 0xFF, tensor_bytes(problem, problem.output_extents().elements()));
}

}  // namespace knobwise
