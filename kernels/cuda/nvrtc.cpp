#include "kernels/cuda/nvrtc.h"

#include <fmt/format.h>

#include <nvrtc.h>
#include <algorithm>

#include <cstdlib>
#include <memory>

#include "kernels/cuda/shared_library.h"
#include "kernels/device.h"
#include "search_spaces/never_destroyed.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

#define KW_NVRTC_CALLS(CALL)   \
  CALL(nvrtcVersion)           \
  CALL(nvrtcGetErrorString)    \
  CALL(nvrtcCreateProgram)     \
  CALL(nvrtcDestroyProgram)    \
  CALL(nvrtcCompileProgram)    \
  CALL(nvrtcGetProgramLogSize) \
  CALL(nvrtcGetProgramLog)     \
  CALL(nvrtcGetCUBINSize)      \
  CALL(nvrtcGetCUBIN)

struct Nvrtc {
#define KW_DECLARE(name) decltype(&::name) name = nullptr;
  KW_NVRTC_CALLS(KW_DECLARE)
#undef KW_DECLARE
  std::string version;
  std::string problem;
};

const char* resolve(const SharedLibrary& library, Nvrtc& calls) {
#define KW_RESOLVE(name)                                  \
  calls.name = library.find<decltype(calls.name)>(#name); \
  if (!calls.name) return #name;
  KW_NVRTC_CALLS(KW_RESOLVE)
#undef KW_RESOLVE
  return nullptr;
}

Nvrtc load() {
  Nvrtc nvrtc;
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
  const char* chosen = std::getenv("KNOBWISE_NVRTC");
  if (chosen && *chosen) names = {chosen};
  const SharedLibrary library(names, cuda_library_folders());
  if (!library) {
    nvrtc.problem =
        fmt::format("no CUDA run-time compiler: {}; set CUDA_HOME or KNOBWISE_NVRTC to the library's file",
                    library.error());
  } else if (const char* missing = resolve(library, nvrtc)) {
    nvrtc.problem = fmt::format("the CUDA run-time compiler is too old: it has no {}", missing);
  } else {
    int major = 0, minor = 0;
    nvrtc.nvrtcVersion(&major, &minor);
    nvrtc.version = fmt::format("NVRTC {}.{}", major, minor);
  }
  return nvrtc;
}

const Nvrtc& nvrtc() {
  static const auto& instance = never_destroyed(load());
  return instance;
}

void check(nvrtcResult result, const char* call) {
  if (result == NVRTC_SUCCESS) return;
  throw TrialError("compile_failed", fmt::format("{}: {}", call, nvrtc().nvrtcGetErrorString(result)));
}

// The line of the log that says what is wrong: the first with an error, or the first line.
std::string first_error(const std::string& log) {
  std::size_t at = std::min(log.find("error"), log.find("fatal"));
  if (at == std::string::npos) at = 0;
  const std::size_t newline = at == 0 ? std::string::npos : log.rfind('\n', at);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return log.substr(begin, log.find('\n', at) - begin);
}

struct ProgramDeleter {
  void operator()(nvrtcProgram program) const { nvrtc().nvrtcDestroyProgram(&program); }
};
using Program = std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, ProgramDeleter>;

std::string log_of(nvrtcProgram program) {
  std::size_t size = 0;
  check(nvrtc().nvrtcGetProgramLogSize(program, &size), "nvrtcGetProgramLogSize");
  std::string log(size, '\0');
  if (size > 0) check(nvrtc().nvrtcGetProgramLog(program, log.data()), "nvrtcGetProgramLog");
  while (!log.empty() && log.back() == '\0') log.pop_back();
  return log;
}

}  // namespace

const std::string& nvrtc_version() {
  return nvrtc().version;
}

const std::string& nvrtc_problem() {
  return nvrtc().problem;
}

std::string nvrtc_architecture(int compute_capability) {
  return fmt::format("sm_{}{}", compute_capability, compute_capability == 90 ? "a" : "");
}

NvrtcOutput nvrtc_compile(std::string_view source, const std::vector<std::string>& options) {
  if (!nvrtc().problem.empty()) throw UserError(nvrtc().problem);
  const std::string text(source);
  nvrtcProgram handle = nullptr;
  check(nvrtc().nvrtcCreateProgram(&handle, text.c_str(), "knobwise.cu", 0, nullptr, nullptr),
        "nvrtcCreateProgram");
  const Program program(handle);
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  const nvrtcResult result =
      nvrtc().nvrtcCompileProgram(program.get(), static_cast<int>(arguments.size()), arguments.data());
  NvrtcOutput output;
  output.log = log_of(program.get());
  if (result == NVRTC_ERROR_COMPILATION || (result != NVRTC_SUCCESS && !output.log.empty())) {
    throw TrialError("compile_failed", first_error(output.log));
  }
  check(result, "nvrtcCompileProgram");
  std::size_t size = 0;
  check(nvrtc().nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
  output.cubin.resize(size);
  check(nvrtc().nvrtcGetCUBIN(program.get(), output.cubin.data()), "nvrtcGetCUBIN");
  return output;
}

}  // namespace knobwise
