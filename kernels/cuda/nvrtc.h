// CUDA's run-time compiler, loaded at run time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace knobwise {

/// What a compilation gave.
struct NvrtcOutput {
  std::string cubin;
  std::string log;  ///< Warnings and the assembler's report.
};

/// "NVRTC 13.0", or empty when NVRTC cannot be loaded: nvrtc_problem() says why.
const std::string& nvrtc_version();
/// One line for people: what is missing and how to name it; empty when there is an NVRTC.
const std::string& nvrtc_problem();

/// Compiles one translation unit to machine code. `options` are NVRTC's. Throws TrialError (compile_failed,
/// with the first error of the log) or UserError when NVRTC is missing. Thread-safe; NVRTC itself compiles
/// one program at a time in a process.
NvrtcOutput nvrtc_compile(std::string_view source, const std::vector<std::string>& options);

/// NVRTC's name for machine code of a compute capability: "sm_80", "sm_90a" (with Hopper's own instructions).
std::string nvrtc_architecture(int compute_capability);

}  // namespace knobwise
