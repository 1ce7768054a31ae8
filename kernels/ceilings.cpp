#include "kernels/ceilings.h"

#include <algorithm>
#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/operands.h"

namespace knobwise {
namespace {

constexpr int kSamples = 20;

// The best of several samples: whatever disturbs one only makes it slower.
double best_rate(Device& device, const CeilingProbe& probe) {
  const auto input = device.allocate(probe.input_bytes, "calibration");
  const auto output = device.allocate(probe.output_bytes, "calibration");
  device.fill_operand(input->data(), probe.dtype,
                      static_cast<std::int64_t>(probe.input_bytes / size_of(probe.dtype)),
                      OperandFill{.kind = OperandFill::Kind::uniform, .seed = 1, .low = 0, .high = 1});
  Buffers buffers;
  buffers.input = input->data();
  buffers.output = output->data();
  const auto executable = device.load(probe.instance, compile(probe.instance, device.info()));
  TimingOptions options;
  options.min_samples = options.max_samples = kSamples;
  return probe.work / (1e-6 * device.time(*executable, buffers, options).min_us);
}

}  // namespace

MeasuredCeilings measure_ceilings(Device& device) {
  MeasuredCeilings ceilings;
  const auto probes = device.info().backend == Backend::cpu ? cpu_ceiling_probes(device.info())
                                                            : cuda_ceiling_probes(device.info());
  for (const CeilingProbe& probe : probes) {
    double& ceiling = ceilings[probe.resource];
    ceiling = std::max(ceiling, best_rate(device, probe));
  }
  return ceilings;
}

}  // namespace knobwise
