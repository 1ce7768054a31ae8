#include "tuner/cli/plan_run.h"

#include <memory>
#include <vector>

#include "kernels/tensors.h"

namespace knobwise::cli {
namespace {

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

}  // namespace

std::unique_ptr<Executable> executable_of(Plan& plan) {
  return std::make_unique<PlanExecutable>(plan);
}

Outcome run_plan(Plan& plan, const std::string& device_name, const AccuracyRequirement& requirement,
                 std::uint64_t seed) {
  const std::unique_ptr<Device> device = open_device(device_name);
  const Problem& problem = plan.problem();
  std::vector<std::unique_ptr<DeviceBuffer>> memory;
  const Buffers buffers = allocate_tensors(problem, [&](std::size_t bytes, std::string_view purpose) {
    return memory.emplace_back(device->allocate(bytes, purpose))->data();
  });
  fill_tensors(*device, problem, buffers, Distribution::uniform, seed);
  poison_output(*device, problem, buffers);
  std::vector<ConstBuffer> parameters;
  for (const ParameterSpec& parameter : problem.parameters()) {
    parameters.emplace_back(buffers.parameters[parameters.size()],
                            tensor_bytes(problem, parameter.elements()));
  }
  plan.prepare(parameters);
  const std::unique_ptr<Executable> executable = executable_of(plan);
  executable->run(buffers, nullptr);
  device->synchronize();
  Outcome outcome;
  outcome.seed = seed;
  const KernelFamily* family = find_family(device->info().backend, plan.description().family);
  outcome.error =
      device->verify(problem, buffers, family->tile(problem, plan.description().configuration), seed);
  outcome.accepted = requirement.accepts(outcome.error);
  outcome.timing = device->time(*executable, buffers, TimingOptions{});
  return outcome;
}

}  // namespace knobwise::cli
