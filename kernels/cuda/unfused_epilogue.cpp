#include "kernels/cuda/unfused_epilogue.h"

#include <fmt/format.h>

#include "kernels/cuda/device_source.h"

namespace knobwise {
namespace {

/// Problems of a device. A search and a decision ask about one many times, an application about ever new
/// ones.
constexpr std::size_t kMostKept = 4;

Problem first_steps(const Problem& problem, std::size_t count) {
  Problem head = problem;
  head.epilogue.resize(count);
  return head;
}

/// Hands out parts of a workspace, aligned for any access.
class WorkspaceLayout {
 public:
  explicit WorkspaceLayout(std::size_t begin) : end_(aligned(begin)) {}
  BufferRef take(std::size_t bytes) {
    const std::size_t begin = end_;
    end_ += aligned(bytes);
    return {Slot::workspace, begin};
  }
  std::size_t end() const { return end_; }

 private:
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t end_;
};

}  // namespace

void append_passes(KernelInstance& instance, const Problem& problem, const PassSource& source,
                   std::string_view prefix) {
  const PassPlan plan = plan_passes(problem, source, prefix);
  WorkspaceLayout layout(instance.workspace_bytes);
  BufferRef from{Slot::output};
  if (!plan.in_place)
    from = layout.take(static_cast<std::size_t>(problem.extents_before(source.first_step).elements()) *
                       size_of(source.dtype) * static_cast<std::size_t>(source.parts));
  const BufferRef scratch[] = {layout.take(plan.scratch_bytes[0]), layout.take(plan.scratch_bytes[1])};
  const auto place = [&](PassTensor tensor) {
    switch (tensor) {
      case PassTensor::source:
        return from;
      case PassTensor::scratch0:
        return scratch[0];
      case PassTensor::scratch1:
        return scratch[1];
      case PassTensor::output:
        break;
    }
    return BufferRef{Slot::output};
  };
  for (KernelLaunch& launch : instance.run)
    for (BufferRef& argument : launch.arguments)
      if (argument.slot == Slot::output) argument = from;
  for (const Pass& pass : plan.passes) {
    KernelLaunch launch{
        pass.function, {pass.blocks, 1, 1}, {pass.threads, 1, 1}, 0, {place(pass.in), place(pass.out)}};
    for (std::size_t i = 0; i < problem.parameters().size(); ++i)
      launch.arguments.push_back({Slot::parameter, i});
    instance.run.push_back(std::move(launch));
  }
  instance.workspace_bytes = layout.end();
  instance.source += "#undef KW_BIAS\n" + plan.source;
}

bool UnfusedEpilogue::has_configurations(const Problem& problem, const DeviceInfo& device) const {
  // Steps that the space does not know leave the configurations of the convolution itself.
  const bool same =
      inner_.extra_constants(problem, device) == inner_.extra_constants(first_steps(problem, 0), device);
  return same || !bind_space(inner_, problem, device).empty();
}

std::optional<std::size_t> UnfusedEpilogue::find_fused_steps(const Problem& problem,
                                                             const DeviceInfo& device) const {
  const std::optional<std::size_t> most = most_steps(problem, device);
  for (std::size_t count = most ? *most + 1 : 0; count-- > 0;) {
    const Problem head = first_steps(problem, count);
    if (!inner_.unsupported_reason(head, device) && has_configurations(head, device)) return count;
  }
  return most;
}

std::optional<std::size_t> UnfusedEpilogue::most_steps(const Problem& problem,
                                                       const DeviceInfo& device) const {
  for (std::size_t count = problem.epilogue.size() + 1; count-- > 0;)
    if (!inner_.unsupported_reason(first_steps(problem, count), device)) return count;
  return std::nullopt;
}

void UnfusedEpilogue::keep(const DeviceFigures& figures, const std::string& line,
                           std::optional<std::size_t> steps) const {
  const std::lock_guard lock(mutex_);
  FusedSteps& known = fused_steps_[figures];
  if (known.contains(line)) return;
  if (known.size() == kMostKept) known.erase(known.begin());
  known.emplace(line, steps);
}

std::optional<Problem> UnfusedEpilogue::fused_part(const Problem& problem, const DeviceInfo& device) const {
  const DeviceFigures figures = device.constants();
  const std::string line = problem.to_string();
  const auto part = [&](std::optional<std::size_t> steps) {
    return steps ? std::optional(first_steps(problem, *steps)) : std::nullopt;
  };
  {
    const std::lock_guard lock(mutex_);
    const FusedSteps& known = fused_steps_[figures];
    if (const auto found = known.find(line); found != known.end()) return part(found->second);
  }
  const std::optional<std::size_t> steps = find_fused_steps(problem, device);
  keep(figures, line, steps);
  return part(steps);
}

std::optional<std::string> UnfusedEpilogue::unsupported_reason(const Problem& problem,
                                                               const DeviceInfo& device) const {
  const std::optional<std::size_t> most = most_steps(problem, device);
  if (!most) return inner_.unsupported_reason(first_steps(problem, 0), device);
  if (problem.parameters().size() > kMostPassParameters &&
      fused_part(problem, device)->epilogue.size() < problem.epilogue.size())
    return fmt::format("at most {} parameters are passed to the epilogue", kMostPassParameters);
  return std::nullopt;
}

std::optional<std::string> UnfusedEpilogue::violation(const Problem& problem,
                                                      const Configuration& configuration,
                                                      const DeviceInfo& device) const {
  // A configuration for the most steps tells that these have configurations: none is looked for then.
  if (const std::optional<std::size_t> most = most_steps(problem, device);
      most && !inner_.violation(first_steps(problem, *most), configuration, device)) {
    keep(device.constants(), problem.to_string(), most);
    return std::nullopt;
  }
  return KernelFamily::violation(problem, configuration, device);
}

std::vector<std::pair<std::string, Value>> UnfusedEpilogue::extra_constants(const Problem& problem,
                                                                            const DeviceInfo& device) const {
  return inner_.extra_constants(fused_part(problem, device).value(), device);
}

std::string UnfusedEpilogue::source_hash() const {
  return text_digest({inner_.source_hash()}, {"epilogue_passes.cuh"});
}

KernelInstance UnfusedEpilogue::instantiate(const Problem& problem, const Configuration& configuration,
                                            const DeviceInfo& device) const {
  const Problem fused = fused_part(problem, device).value();
  KernelInstance instance = inner_.instantiate(fused, configuration, device);
  if (const std::size_t done = fused.epilogue.size(); done < problem.epilogue.size())
    append_passes(instance, problem, PassSource{problem.layout == Layout::nhwc, true, done, problem.dtype, 1},
                  "kw_rest");
  return instance;
}

OutputTile UnfusedEpilogue::tile(const Problem& problem, const Configuration& configuration) const {
  // Where the seams of the convolution run; a step that reduces leaves those of the other dimensions.
  return inner_.tile(first_steps(problem, 0), configuration);
}

}  // namespace knobwise
