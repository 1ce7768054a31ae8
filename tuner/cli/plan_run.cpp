#include "tuner/cli/plan_run.h"

#include <memory>
#include <vector>

#include "kernels/operands.h"

namespace knobwise::cli {
namespace {

// A plan seen as an executable, so that a device can time it as it times trials.
class PlanExecutable : public Executable {
 public:
  explicit PlanExecutable(Plan& plan) : plan_(plan) {}
  std::size_t packed_bytes() const override { return 0; }
  std::size_t workspace_bytes() const override { return 0; }
  void prepare(const Buffers&, Stream) override {}
  void run(const Buffers& buffers, Stream stream) override {
    plan_.run({buffers.input, plan_.input_bytes()}, {buffers.output, plan_.output_bytes()}, stream);
  }

 private:
  Plan& plan_;
};

// The problem's tensors on a device, filled from a seed.
struct Tensors {
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  std::vector<ConstBuffer> parameters;
  Buffers buffers;
};

Tensors make_tensors(Device& device, const Problem& problem, std::uint64_t seed) {
  Tensors tensors;
  const auto add = [&](std::int64_t elements, std::string_view purpose) {
    tensors.memory.push_back(
        device.allocate(static_cast<std::size_t>(elements) * size_of(problem.dtype), purpose));
    return tensors.memory.back()->data();
  };
  const std::int64_t inputs = problem.input_extents().elements();
  tensors.buffers.input = add(inputs, "input");
  device.fill_operand(tensors.buffers.input, problem.dtype, inputs,
                      operand_fill(problem, Distribution::uniform, seed, -1));
  int index = 0;
  for (const ParameterSpec& parameter : problem.parameters()) {
    void* data = add(parameter.elements(), parameter.name);
    device.fill_operand(data, problem.dtype, parameter.elements(),
                        operand_fill(problem, Distribution::uniform, seed, index++));
    tensors.buffers.parameters.push_back(data);
    tensors.parameters.emplace_back(data,
                                    static_cast<std::size_t>(parameter.elements()) * size_of(problem.dtype));
  }
  const std::int64_t outputs = problem.output_extents().elements();
  tensors.buffers.output = add(outputs, "output");
  device.fill_bytes(tensors.buffers.output, 0xFF, static_cast<std::size_t>(outputs) * size_of(problem.dtype));
  return tensors;
}

}  // namespace

Outcome run_plan(Plan& plan, const std::string& device_name, const AccuracyRequirement& requirement,
                 std::uint64_t seed) {
  const std::unique_ptr<Device> device = open_device(device_name);
  const Tensors tensors = make_tensors(*device, plan.problem(), seed);
  PlanExecutable executable(plan);
  plan.prepare(tensors.parameters);
  executable.run(tensors.buffers, nullptr);
  device->synchronize();
  Outcome outcome;
  outcome.seed = seed;
  const KernelFamily* family = find_family(device->info().backend, plan.description().family);
  outcome.error = device->verify(plan.problem(), tensors.buffers,
                                 family->tile(plan.problem(), plan.description().configuration), seed);
  outcome.accepted = requirement.accepts(outcome.error);
  outcome.timing = device->time(executable, tensors.buffers, TimingOptions{});
  return outcome;
}

}  // namespace knobwise::cli
