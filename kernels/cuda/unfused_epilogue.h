// Epilogues that a kernel does not fuse: done by passes after it, as part of the same run.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/cuda/epilogue_passes.h"
#include "kernels/family.h"

namespace knobwise {

/// Lets `instance`, whose kernels write what `source` describes to the output, write it to the workspace
/// instead, and adds the passes that make `problem`'s output of it. `prefix` as for plan_passes().
void append_passes(KernelInstance& instance, const Problem& problem, const PassSource& source,
                   std::string_view prefix);

/// A family of the CUDA backend that does every epilogue: `inner` fuses as many of the first steps as it can
/// and has configurations for (what lies between them and the rest has the problem's type), passes do the
/// rest. Everything else is the inner family's, its name and knobs included. Thread-safe; keeps a reference
/// to `inner`, and what it fuses of a few problems a device.
class UnfusedEpilogue final : public KernelFamily {
 public:
  explicit UnfusedEpilogue(const KernelFamily& inner) : inner_(inner) {}

  std::string_view name() const override { return inner_.name(); }
  Backend backend() const override { return inner_.backend(); }
  std::optional<std::string> unsupported_reason(const Problem& problem,
                                                const DeviceInfo& device) const override;
  std::string_view space_json() const override { return inner_.space_json(); }
  std::vector<std::pair<std::string, Value>> extra_constants(const Problem& problem,
                                                             const DeviceInfo& device) const override;
  std::optional<std::string> violation(const Problem& problem, const Configuration& configuration,
                                       const DeviceInfo& device) const override;
  std::string source_hash() const override;
  KernelInstance instantiate(const Problem& problem, const Configuration& configuration,
                             const DeviceInfo& device) const override;
  OutputTile tile(const Problem& problem, const Configuration& configuration) const override;

 private:
  /// The problem with the first steps of its epilogue that `inner` does; nothing if it cannot even do the
  /// convolution.
  std::optional<Problem> fused_part(const Problem& problem, const DeviceInfo& device) const;
  /// How many steps those are. Looks for configurations.
  std::optional<std::size_t> find_fused_steps(const Problem& problem, const DeviceInfo& device) const;
  /// The most steps that `inner` supports, with or without configurations.
  std::optional<std::size_t> most_steps(const Problem& problem, const DeviceInfo& device) const;
  using DeviceFigures = std::vector<std::pair<std::string, Value>>;
  void keep(const DeviceFigures& figures, const std::string& line, std::optional<std::size_t> steps) const;
  bool has_configurations(const Problem& problem, const DeviceInfo& device) const;

  using FusedSteps = std::map<std::string, std::optional<std::size_t>>;  // of a problem's line
  const KernelFamily& inner_;
  mutable std::mutex mutex_;
  mutable std::map<DeviceFigures, FusedSteps> fused_steps_;
};

}  // namespace knobwise
