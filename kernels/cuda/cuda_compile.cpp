#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/nvrtc.h"
#include "kernels/cuda/resource_report.h"

namespace knobwise {

namespace {

std::vector<std::string> options_for(int compute_capability) {
  return {"--gpu-architecture=" + nvrtc_architecture(compute_capability), "--std=c++17",
          "--ptxas-options=-v"};
}

// NVRTC (13.0) keeps a disk cache of its own, whose hits come without the assembler's report: those are
// compiled again past the cache.
NvrtcOutput compile_with_report(const KernelInstance& instance, int compute_capability) {
  std::vector<std::string> options = options_for(compute_capability);
  const auto is_standard = [](const std::string& option) {
    return option.starts_with("-std=") || option.starts_with("--std=");
  };
  // NVRTC takes one standard only.
  const auto& own = instance.compiler_options;
  if (std::any_of(own.begin(), own.end(), is_standard)) std::erase_if(options, is_standard);
  options.insert(options.end(), own.begin(), own.end());
  NvrtcOutput output = nvrtc_compile(instance.source, options);
  if (output.log.find("ptxas") != std::string::npos) return output;
  options.push_back("--no-cache");
  return nvrtc_compile(instance.source, options);
}

}  // namespace

std::string cuda_compile_options(const DeviceInfo& target) {
  return fmt::format("{}", fmt::join(options_for(target.compute_capability), " "));
}

std::string cuda_compiler_version() {
  return nvrtc_version();
}

CompiledCode cuda_compile(const KernelInstance& instance, const DeviceInfo& target) {
  const auto start = std::chrono::steady_clock::now();
  NvrtcOutput output = compile_with_report(instance, target.compute_capability);
  CompiledCode code;
  code.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto functions = parse_resource_report(output.log);
  for (const KernelLaunch& launch : instance.run) {
    const auto function = functions.find(launch.function);
    if (function == functions.end()) {
      throw TrialError("compile_failed",
                       fmt::format("the source defines no kernel named {}", launch.function));
    }
    Resources resources = function->second;
    resources.dynamic_shared_bytes = static_cast<int>(launch.dynamic_shared_bytes);
    code.resources = worst_of(code.resources, resources);
  }
  code.image = std::move(output.cubin);
  code.resources.binary_bytes = static_cast<std::int64_t>(code.image.size());
  return code;
}

}  // namespace knobwise
