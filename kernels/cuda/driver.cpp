#include "kernels/cuda/driver.h"

#include <fmt/format.h>

#include <string_view>

#include "kernels/cuda/shared_library.h"
#include "search_spaces/never_destroyed.h"
#include "search_spaces/user_error.h"

namespace knobwise {
namespace {

struct Loaded {
  Driver calls;
  bool usable = false;
  std::string problem;
};

#define KW_TEXT_OF(name) #name
#define KW_TEXT(name) KW_TEXT_OF(name)

// Drivers before 12.8 have only the first version of this call, which takes the same parameters.
const char* older_name(std::string_view symbol) {
  return symbol == "cuEventElapsedTime_v2" ? "cuEventElapsedTime" : nullptr;
}

// Fills the table; the name of a symbol that the library lacks, or null.
const char* resolve(const SharedLibrary& library, Driver& calls) {
  const char* missing = nullptr;
  const auto find = [&]<class Function>(Function& call, const char* symbol) {
    call = library.find<Function>(symbol);
    if (const char* older = older_name(symbol); !call && older) call = library.find<Function>(older);
    if (!call) missing = symbol;
  };
#define KW_RESOLVE(name) find(calls.name, KW_TEXT(name));
  KW_DRIVER_CALLS(KW_RESOLVE)
#undef KW_RESOLVE
#define KW_RESOLVE(name) calls.name = library.find<decltype(calls.name)>(KW_TEXT(name));
  KW_OPTIONAL_DRIVER_CALLS(KW_RESOLVE)
#undef KW_RESOLVE
  return missing;
}

std::string describe(const Driver& calls, CUresult result, const char* call) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (calls.cuGetErrorName) calls.cuGetErrorName(result, &name);
  if (calls.cuGetErrorString) calls.cuGetErrorString(result, &text);
  return fmt::format("{}: {} ({})", call, name ? name : "unknown CUDA error",
                     text ? text : fmt::format("code {}", static_cast<int>(result)).c_str());
}

Loaded load() {
  Loaded loaded;
  const SharedLibrary library({"libcuda.so.1"}, {});
  if (!library) {
    loaded.problem = "no CUDA driver: " + library.error();
  } else if (const char* missing = resolve(library, loaded.calls)) {
    loaded.problem = fmt::format("the CUDA driver is too old: libcuda.so.1 has no {}", missing);
  } else if (const CUresult result = loaded.calls.cuInit(0); result != CUDA_SUCCESS) {
    loaded.problem = "the CUDA driver does not start: " + describe(loaded.calls, result, "cuInit");
  } else {
    loaded.usable = true;
  }
  return loaded;
}

const Loaded& loaded() {
  static const auto& instance = never_destroyed(load());
  return instance;
}

}  // namespace

const Driver* find_driver() {
  return loaded().usable ? &loaded().calls : nullptr;
}

const std::string& driver_problem() {
  return loaded().problem;
}

const Driver& driver() {
  if (!loaded().usable) throw UserError(driver_problem());
  return loaded().calls;
}

std::string describe_failure(CUresult result, const char* call) {
  return describe(loaded().calls, result, call);
}

}  // namespace knobwise
