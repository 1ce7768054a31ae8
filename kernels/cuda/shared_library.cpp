#include "kernels/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

namespace knobwise {

SharedLibrary::SharedLibrary(const std::vector<std::string>& names, const std::vector<std::string>& folders) {
  const auto open = [this](const std::string& path) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return true;
    if (const char* reason = dlerror()) error_ = reason;
    return false;
  };
  for (const std::string& name : names) {
    if (open(name)) break;
    if (name.find('/') != std::string::npos) continue;
    for (const std::string& folder : folders) {
      if (open(folder + "/" + name)) break;
    }
    if (handle_) break;
  }
  error_ = handle_ ? "" : fmt::format("cannot load {} ({})", fmt::join(names, " or "), error_);
}

void* SharedLibrary::address(const char* symbol) const {
  return handle_ ? dlsym(handle_, symbol) : nullptr;
}

std::vector<std::string> cuda_library_folders() {
  std::vector<std::string> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (root && *root) roots.emplace_back(root);
  }
  roots.emplace_back("/usr/local/cuda");
  std::vector<std::string> folders;
  for (const std::string& root : roots) {
    for (const char* folder : {"/lib64", "/lib", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib"}) {
      folders.push_back(root + folder);
    }
  }
  return folders;
}

}  // namespace knobwise
