// Libraries found at run time, so that the program starts where they are missing.
#pragma once

#include <string>
#include <vector>

namespace knobwise {

/// A shared library that is loaded if some file of that name can be, and stays loaded until the program ends
/// (CUDA's libraries do not survive being unloaded). Immutable; any number of threads may use one.
class SharedLibrary {
 public:
  /// Loads the first of `names` that the dynamic loader finds (LD_LIBRARY_PATH, the system's folders) or that
  /// lies in one of `folders`; a name with a slash is a path. A null library, with error() set, if none does.
  SharedLibrary(const std::vector<std::string>& names, const std::vector<std::string>& folders);

  explicit operator bool() const { return handle_ != nullptr; }
  /// One line: which names were tried, and what the loader said of the last.
  const std::string& error() const { return error_; }

  /// The address of a symbol, as a pointer to function of type `Function`; null if the library lacks it.
  template <class Function>
  Function find(const char* symbol) const {
    return reinterpret_cast<Function>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  void* handle_ = nullptr;
  std::string error_;
};

/// Folders where a CUDA toolkit keeps its libraries: $CUDA_HOME, $CUDA_PATH and /usr/local/cuda, each with
/// lib64, lib and targets.
std::vector<std::string> cuda_library_folders();

}  // namespace knobwise
